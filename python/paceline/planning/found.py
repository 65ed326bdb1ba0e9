"""The capacity that a search found, with the curve it was read off."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from paceline.objectives import SLO, Percentiles
from paceline.planning.edge import Crossing
from paceline.planning.measured import Rule
from paceline.planning.ties import Ties

__all__ = ["Capacity", "plain"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Capacity:
    """The highest load at which a cluster meets an objective: a rate, or how much is in flight.

    Attributes
    ----------
    rate
        The highest evaluated rate, in requests per second, such that it and all evaluated rates below it
        pass; None if the lowest rate of the search fails. With clients: the rate at which requests finish
        with ``in_flight`` of them.
    in_flight
        The most requests, or sessions, in flight, likewise, if the trace has clients; else None.
    unit
        The unit of the search: ``"requests/s"``, ``"requests in flight"`` or ``"sessions in flight"``.
    fails_at
        The lowest evaluated load that fails, in that unit; None if none does. The edge lies between the
        answer and it.
    bound
        ``"above"`` if the highest load of the search passes, so that the capacity is that load or more;
        ``"below"`` if its lowest load fails, so that it is less; else None.
    lowest, highest
        The limits of the search, in its unit.
    crossings
        Neighbouring evaluated loads with different outcomes, ascending: one where the curve is monotone.
    monotone
        Whether no evaluated load passes above one that fails.
    highest_pass
        The highest evaluated load that passes; above ``fails_at`` if the curve is not monotone; None if none
        passes.
    curve
        A row for each evaluated load, ascending: ``rate``, ``gpu_rate``, ``megawatt_rate`` (per megawatt of
        the GPUs' mean power; null if it is not known); ``scale`` (over the trace's own rate), or with clients
        ``in_flight``, ``gpu_in_flight`` and ``megawatt_in_flight``; ``attainment``, ``margin`` (attainment
        less target; under the marginal rule the smallest of 1 - percentile / bound), the percentiles of the
        latencies at the target (``p90_ttft``, ``p90_tpot``, … in seconds, infinite if too few finished),
        ``requests``, ``rejected`` and ``passes``.
    samples
        With several traces or windows, a row for the capacity of each by itself: ``sample``, ``requests``,
        ``rate`` or ``in_flight``, ``scale``, ``bound``, ``monotone``; else None.
    slo, target, rule, tolerance
        As given; target and rule None where slo has percentiles.
    gpus
        GPUs of the cluster.
    trace, own
        The trace's name, and its own load in the unit of the search.
    ties
        Requests that arrive at one moment at any rate: their share, and the most of them.
    policy
        The policy's name.
    """

    rate: float | None
    in_flight: int | None
    unit: str
    fails_at: float | None
    bound: Literal["above", "below"] | None
    lowest: float
    highest: float
    crossings: tuple[Crossing, ...]
    monotone: bool
    highest_pass: float | None
    curve: pl.DataFrame
    samples: pl.DataFrame | None
    slo: SLO | Percentiles
    target: float | None
    rule: Rule | None
    tolerance: float
    gpus: int
    trace: str
    own: float
    ties: Ties
    policy: str

    @property
    def is_rate(self) -> bool:
        """Whether a rate was searched, and not how much is in flight."""
        return self.unit == "requests/s"

    @property
    def own_rate(self) -> float | None:
        """The trace's own rate; None with clients."""
        return self.own if self.is_rate else None

    @property
    def scale(self) -> float | None:
        """The rate as a multiple of the trace's own: its arrivals were divided by it; None with clients."""
        return None if self.rate is None or not self.is_rate else self.rate / self.own

    @property
    def gpu_rate(self) -> float | None:
        """The rate per GPU."""
        return None if self.rate is None else self.rate / self.gpus

    @property
    def gpu_in_flight(self) -> float | None:
        """How much is in flight per GPU; None without clients."""
        return None if self.in_flight is None else self.in_flight / self.gpus

    @property
    def megawatt_rate(self) -> float | None:
        """The rate per megawatt of the GPUs' mean power; None if it is not known."""
        return self._answer("megawatt_rate")

    @property
    def megawatt_in_flight(self) -> float | None:
        """How much is in flight per megawatt of the GPUs' mean power; None without clients."""
        return self._answer("megawatt_in_flight")

    def _answer(self, column: str) -> float | None:
        """Return a number of the answer's row of the curve."""
        amount, name = (self.rate, "rate") if self.is_rate else (self.in_flight, "in_flight")
        if amount is None or column not in self.curve.columns:
            return None
        value: float | None = self.curve.row(by_predicate=pl.col(name) == amount, named=True)[column]
        return value

    @property
    def band(self) -> tuple[float, float] | None:
        """The lowest and the highest capacity of the samples, in the search's unit; None without samples.

        Of K independent samples the band contains the median capacity with probability 1 - 2**(1 - K),
        whatever its distribution: both ends miss it on one side only if all samples lie on the same side. A
        sample whose capacity is below the limit of the search counts as 0, one above it as infinite.
        """
        if self.samples is None:
            return None
        load = "rate" if self.is_rate else "in_flight"
        ends = [
            {"below": 0.0, "above": math.inf}.get(bound or "", amount)
            for amount, bound in self.samples.select(load, "bound").rows()
        ]
        return min(ends), max(ends)

    def plot_frame(self) -> pl.DataFrame:
        """Return the curve in long form, for plotting.

        Returns
        -------
        polars.DataFrame
            A row for each load and quantity: ``rate``, ``gpu_rate`` and with clients ``in_flight``;
            ``quantity`` (``attainment``, ``p90_ttft``, …), ``value``, ``limit`` (the target or the bound;
            null if there is none) and ``passes``.
        """
        percentiles = [name for name in self.curve.columns if name.partition("_")[0][1:2].isdigit()]
        bounds = self.slo.bounds()
        limits = {name: bounds.get(name, bounds.get(name.partition("_")[2])) for name in percentiles}
        limits["attainment"] = self.target if self.rule == "joint" else None
        loads = ["rate", "gpu_rate", *([] if self.is_rate else ["in_flight"])]
        long = self.curve.unpivot(
            ["attainment", *percentiles],
            index=[*loads, "passes"],
            variable_name="quantity",
            value_name="value",
        )
        limit = pl.col("quantity").replace_strict(limits, return_dtype=pl.Float64).alias("limit")
        return long.select(*loads, "quantity", "value", limit, "passes")

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, ready for JSON; numbers that are not finite become None."""
        document = {
            "rate": self.rate,
            "scale": self.scale,
            "gpu_rate": self.gpu_rate,
            "megawatt_rate": self.megawatt_rate,
            "in_flight": self.in_flight,
            "gpu_in_flight": self.gpu_in_flight,
            "megawatt_in_flight": self.megawatt_in_flight,
            "unit": self.unit,
            "fails_at": self.fails_at,
            "bound": self.bound,
            "lowest": self.lowest,
            "highest": self.highest,
            "monotone": self.monotone,
            "highest_pass": self.highest_pass,
            "crossings": [
                {"below": each.below, "above": each.above, "passes_above": each.passes_above}
                for each in self.crossings
            ],
            "band": self.band,
            "samples": None if self.samples is None else self.samples.rows(named=True),
            "slo": self.slo.bounds(),
            "target": self.target,
            "rule": self.rule,
            "tolerance": self.tolerance,
            "gpus": self.gpus,
            "trace": self.trace,
            "own": self.own,
            "own_rate": self.own_rate,
            "ties": {"share": self.ties.share, "largest": self.ties.largest},
            "policy": self.policy,
            "curve": self.curve.rows(named=True),
        }
        result: dict[str, Any] = plain(document)
        return result

    def to_json(self) -> str:
        """Return the same as the text of a JSON document."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    def _repr_html_(self) -> str:
        """Show the objective and the curve in a notebook."""
        from paceline.showing.card import card

        facts = [
            ("trace", self.trace),
            ("policy", self.policy),
            ("SLO", repr(self.slo)),
            *([] if self.target is None else [("target", f"{self.target:g}")]),
        ]
        load = ("rate", "gpu_rate") if self.is_rate else ("in_flight", "gpu_in_flight")
        rows = [
            (f"{amount:,.5g}", f"{of_gpu:,.5g}", f"{attainment:.2%}", "passes" if passes else "fails")
            for amount, of_gpu, attainment, passes in self.curve.select(*load, "attainment", "passes").rows()
        ]
        return card(repr(self), facts, head=(self.unit, "per GPU", "attainment", ""), rows=rows)

    def __eq__(self, other: object) -> bool:
        """Compare everything found, the curve included."""
        return self.to_dict() == other.to_dict() if isinstance(other, Capacity) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Say the rate, or the limit that it is beyond."""
        if self.bound is not None:
            limit = self.highest if self.bound == "above" else self.lowest
            return f"Capacity({self.bound} {limit:.5g} {self.unit})"
        noise = "" if self.monotone else f", not monotone up to {self.highest_pass:.5g}"
        amount, of_gpu = (self.rate, self.gpu_rate) if self.is_rate else (self.in_flight, self.gpu_in_flight)
        return f"Capacity({amount:.5g} {self.unit}, {of_gpu:.5g} a GPU{noise})"


def plain(value: Any) -> Any:  # noqa: ANN401 - whatever JSON can say
    """Return a document with lists for tuples and None for numbers that are not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value
