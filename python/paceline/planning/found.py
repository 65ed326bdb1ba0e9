"""The capacity that a search found, with the curve it was read off."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from paceline.objectives import SLO
from paceline.planning.edge import Crossing
from paceline.planning.measured import Rule
from paceline.planning.ties import Ties

__all__ = ["Capacity", "plain"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Capacity:
    """The highest rate at which a cluster meets an objective.

    Attributes
    ----------
    rate
        The highest evaluated rate, in requests per second, such that it and all evaluated rates below it
        pass; None if the lowest rate of the search fails.
    scale
        The same as a multiple of the trace's own rate: its arrivals were divided by it.
    gpu_rate
        The same per GPU.
    fails_at
        The lowest evaluated rate that fails; None if none does. The edge lies between ``rate`` and it.
    bound
        ``"above"`` if the highest rate of the search passes, so that the capacity is that rate or more;
        ``"below"`` if its lowest rate fails, so that it is less; else None.
    lowest, highest
        The limits of the search, in requests per second.
    crossings
        Neighbouring evaluated rates with different outcomes, ascending: one where the curve is monotone.
    monotone
        Whether no evaluated rate passes above one that fails.
    highest_pass
        The highest evaluated rate that passes; above ``fails_at`` if the curve is not monotone; None if no
        rate passes.
    curve
        A row for each evaluated rate, ascending: ``rate``, ``scale``, ``gpu_rate``, ``attainment``,
        ``margin`` (attainment less target; under the marginal rule the smallest of 1 - percentile / bound),
        the percentiles of the latencies at the target (``p90_ttft``, ``p90_tpot``, … in seconds, infinite if
        too few finished), ``requests``, ``rejected`` and ``passes``.
    samples
        With several traces or windows, a row for the capacity of each by itself: ``sample``, ``requests``,
        ``rate``, ``scale``, ``bound``, ``monotone``; else None.
    slo, target, rule, tolerance
        As given.
    gpus
        GPUs of the cluster.
    trace, own_rate
        The trace's name, and its own rate.
    ties
        Requests that arrive at one moment at any rate: their share, and the most of them.
    policy
        The policy's name.
    """

    rate: float | None
    scale: float | None
    gpu_rate: float | None
    fails_at: float | None
    bound: Literal["above", "below"] | None
    lowest: float
    highest: float
    crossings: tuple[Crossing, ...]
    monotone: bool
    highest_pass: float | None
    curve: pl.DataFrame
    samples: pl.DataFrame | None
    slo: SLO
    target: float
    rule: Rule
    tolerance: float
    gpus: int
    trace: str
    own_rate: float
    ties: Ties
    policy: str

    @property
    def band(self) -> tuple[float, float] | None:
        """The lowest and the highest capacity of the samples, in requests per second; None without samples.

        Of K independent samples the band contains the median capacity with probability 1 - 2**(1 - K),
        whatever its distribution: both ends miss it on one side only if all samples lie on the same side. A
        sample whose capacity is below the limit of the search counts as 0, one above it as infinite.
        """
        if self.samples is None:
            return None
        ends = [
            {"below": 0.0, "above": math.inf}.get(bound or "", rate)
            for rate, bound in self.samples.select("rate", "bound").rows()
        ]
        return min(ends), max(ends)

    def plot_frame(self) -> pl.DataFrame:
        """Return the curve in long form, for plotting.

        Returns
        -------
        polars.DataFrame
            A row for each rate and quantity: ``rate``, ``gpu_rate``, ``quantity`` (``attainment``,
            ``p90_ttft``, …), ``value``, ``limit`` (the target or the bound; null if there is none) and
            ``passes``.
        """
        percentiles = [name for name in self.curve.columns if name.partition("_")[0][1:2].isdigit()]
        bounds = self.slo.bounds()
        limits = {name: bounds.get(name.partition("_")[2]) for name in percentiles}
        limits["attainment"] = self.target if self.rule == "joint" else None
        long = self.curve.unpivot(
            ["attainment", *percentiles],
            index=["rate", "gpu_rate", "passes"],
            variable_name="quantity",
            value_name="value",
        )
        limit = pl.col("quantity").replace_strict(limits, return_dtype=pl.Float64).alias("limit")
        return long.select("rate", "gpu_rate", "quantity", "value", limit, "passes")

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, ready for JSON; numbers that are not finite become None."""
        document = {
            "rate": self.rate,
            "scale": self.scale,
            "gpu_rate": self.gpu_rate,
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
            ("target", f"{self.target:g}"),
        ]
        rows = [
            (f"{rate:,.5g}", f"{gpu_rate:,.5g}", f"{attainment:.2%}", "passes" if passes else "fails")
            for rate, gpu_rate, attainment, passes in self.curve.select(
                "rate", "gpu_rate", "attainment", "passes"
            ).rows()
        ]
        return card(repr(self), facts, head=("requests/s", "per GPU", "attainment", ""), rows=rows)

    def __eq__(self, other: object) -> bool:
        """Compare everything found, the curve included."""
        return self.to_dict() == other.to_dict() if isinstance(other, Capacity) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Say the rate, or the limit that it is beyond."""
        if self.bound is not None:
            limit = self.highest if self.bound == "above" else self.lowest
            return f"Capacity({self.bound} {limit:.5g} requests/s)"
        noise = "" if self.monotone else f", not monotone up to {self.highest_pass:.5g}"
        return f"Capacity({self.rate:.5g} requests/s, {self.gpu_rate:.5g} a GPU{noise})"


def plain(value: Any) -> Any:  # noqa: ANN401 - whatever JSON can say
    """Return a document with lists for tuples and None for numbers that are not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value
