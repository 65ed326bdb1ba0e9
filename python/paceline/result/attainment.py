"""Attainment: which requests met their objectives.

Attainment is joint: a request counts when it finished within every bound of the
:class:`~paceline.objectives.SLO`, as in vLLM's goodput and DistServe's attainment, and
unlike a product or minimum of per-metric shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from paceline.objectives import SLO
from paceline.result.columns import RequestColumns

__all__ = ["attainment", "latency_bounds", "met"]

_COLUMN_OF: Final = {"ttft": "ttft", "tpot": "tpot", "e2e": "e2e", "itl": "max_itl"}


def latency_bounds(bounds: Mapping[str, float]) -> dict[str, float]:
    """Return the bounds of an SLO by the column of `RequestColumns` that they are for."""
    return {_COLUMN_OF[name]: bound for name, bound in bounds.items()}


def met(columns: RequestColumns, slo: SLO) -> pl.Series:
    """Return, for each request, whether it finished within every bound."""
    finished: pl.Series = columns["status"] == "finished"
    for name, bound in latency_bounds(slo.bounds()).items():
        within: pl.Series = columns[name] <= bound
        # Null for a finished request means a single token: no gap, so nothing to exceed.
        finished = finished & within.fill_null(True)
    return finished.alias("met")


def attainment(columns: RequestColumns, slo: SLO) -> float:
    """Return the share of arrived requests that met `slo`; nan where none arrived."""
    arrived = int((columns["status"] != "not_arrived").sum())
    return int(met(columns, slo).sum()) / arrived if arrived else float("nan")
