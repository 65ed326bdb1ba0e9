"""The figures that a comparison has for each policy, and how one is computed from requests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paceline.comparing.bootstrap import Draws
from paceline.objectives import SLO
from paceline.result import Result

__all__ = ["FIGURES", "LATENCIES", "Figure", "columns_of", "figures_of"]

Floats = NDArray[np.float64]

LATENCIES: Final = ("ttft", "tpot", "e2e", "max_itl", "queueing")
FIGURES: Final = {"mean": None, "p50": 0.5, "p90": 0.9, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a metric: its mean, or a percentile.

    Attributes
    ----------
    metric
        The column of requests.
    name
        ``mean``, ``p50`` and the like, or ``share``.
    quantile
        The share of requests below it; None: the mean.
    """

    metric: str
    name: str
    quantile: float | None

    def of(self, values: Floats) -> float:
        """Return the figure of values; those that are nan are left out."""
        there = values[~np.isnan(values)]
        if there.size == 0:
            return math.nan
        return float(there.mean() if self.quantile is None else np.quantile(there, self.quantile))

    def drawn(self, draws: Draws, values: Floats) -> Floats:
        """Return the figure of each draw."""
        return draws.means(values) if self.quantile is None else draws.quantiles(values, self.quantile)


def figures_of(slo: SLO | None) -> list[Figure]:
    """Return all figures, in the order of a comparison's table."""
    found = [Figure(metric, name, share) for metric in LATENCIES for name, share in FIGURES.items()]
    shares = ("finished",) if slo is None else ("attainment", "finished")
    return found + [Figure(metric, "share", None) for metric in shares]


def columns_of(result: Result, judged: NDArray[np.bool_], slo: SLO | None) -> dict[str, Floats]:
    """Return for each metric the value of each judged request: seconds, or 1 and 0; nan if it has none."""
    columns = {
        metric: result.column(metric).cast(float).fill_null(math.nan).to_numpy()[judged]
        for metric in LATENCIES
    }
    columns["finished"] = (result.column("status") == "finished").to_numpy()[judged].astype(float)
    if slo is not None:
        columns["attainment"] = result.met(slo).to_numpy()[judged].astype(float)
    return columns
