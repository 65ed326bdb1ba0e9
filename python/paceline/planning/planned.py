"""The table that a plan is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from paceline.concurrency import Concurrency
from paceline.objectives import SLO, Percentiles
from paceline.planning.found import plain
from paceline.planning.measured import Rule

__all__ = ["Plan"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Plan:
    """The fewest GPUs of each kind that meet an objective at a rate.

    Attributes
    ----------
    table
        A row for each kind of instance, the cheapest first (by GPUs, or by price): ``kind``, ``instances``,
        ``split`` (instances of each pool, such as ``3:5``, if the policy has pools), ``gpus``,
        ``price_per_hour`` (if prices were given), ``attainment``, ``margin`` (attainment less target; under
        the marginal rule the smallest of 1 - percentile / bound), the percentiles of the latencies at the
        target (``p90_ttft``, …, in seconds), ``requests``, ``rejected``, ``passes`` and ``monotone`` (whether
        no evaluated larger number fails). If no number passes, the row is the option with the best margin of
        those evaluated. With clients also ``in_flight``, ``gpu_in_flight``, ``megawatt_in_flight`` (per
        megawatt of the GPUs' mean power; null if it is not known), and ``rate``, ``gpu_rate``,
        ``megawatt_rate``, at which requests finish.
    evaluated
        The same for each replay.
    rate, scale
        The rate of the trace's arrivals, in requests per second and as a multiple of its own.
    clients
        The clients that send the trace; None: its arrivals do.
    pools
        The names of the pools that ``split`` counts, in order; empty if there are none.
    slo, target, rule, most
        As given; target and rule None where slo has percentiles.
    trace
        The trace's name.
    hopeless
        The kinds that miss the objective even with each request alone, so that no number of instances can be
        expected to meet it; they are searched up to 64 GPUs. Found only where ``most`` is above that.
    left_out
        Kinds that the model does not fit, and why, by name.
    """

    table: pl.DataFrame
    evaluated: pl.DataFrame
    rate: float
    scale: float
    pools: tuple[str, ...]
    slo: SLO | Percentiles
    target: float | None
    rule: Rule | None
    most: int
    trace: str
    clients: Concurrency | None = None
    hopeless: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def best(self) -> dict[str, Any] | None:
        """The first row of the table by name; None if no kind passes."""
        first: dict[str, Any] = self.table.row(0, named=True)
        return first if first["passes"] else None

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, ready for JSON; numbers that are not finite become None."""
        document = {
            "rate": self.rate,
            "scale": self.scale,
            "pools": self.pools,
            "slo": self.slo.bounds(),
            "target": self.target,
            "rule": self.rule,
            "most": self.most,
            "trace": self.trace,
            "clients": None if self.clients is None else repr(self.clients),
            "load": self._load(),
            "hopeless": self.hopeless,
            "left_out": dict(self.left_out),
            "best": self.best,
            "table": self.table.rows(named=True),
            "evaluated": self.evaluated.rows(named=True),
        }
        result: dict[str, Any] = plain(document)
        return result

    def _load(self) -> str:
        """Return the load in words."""
        if self.clients is None or self.clients.most is None:
            return f"{self.rate:,.5g} requests/s"
        return f"{self.clients.most:,} {self.clients.of} in flight"

    def to_json(self) -> str:
        """Return the same as the text of a JSON document."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    def __eq__(self, other: object) -> bool:
        """Compare everything found."""
        return self.to_dict() == other.to_dict() if isinstance(other, Plan) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Say the best row, or that no kind passes."""
        best = self.best
        if best is None:
            return f"Plan(none passes with {self.most} GPUs at {self._load()})"
        split = f" ({best['split']})" if self.pools else ""
        return f"Plan({best['instances']} × {best['kind']}{split}, {best['gpus']} GPUs, at {self._load()})"
