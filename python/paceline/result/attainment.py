"""Attainment: which requests met their objectives.

Attainment is joint: a request counts when it finished within every bound of the
:class:`~paceline.objectives.SLO`, as in vLLM's goodput and DistServe's attainment, and
unlike a product or minimum of per-metric shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from paceline._check import said
from paceline._toml import close_matches
from paceline.errors import ResultError
from paceline.objectives import SLO
from paceline.result.columns import RequestColumns

__all__ = ["attainment", "latency_bounds", "met"]

_COLUMN_OF: Final = {"ttft": "ttft", "tpot": "tpot", "e2e": "e2e", "itl": "max_itl"}


def latency_bounds(bounds: Mapping[str, float]) -> dict[str, float]:
    """Return the bounds of an SLO by the column of `RequestColumns` that they are for."""
    return {_COLUMN_OF[name]: bound for name, bound in bounds.items()}


def met(columns: RequestColumns, slo: SLO | None, deadlines: Mapping[str, str] | None = None) -> pl.Series:
    """Return, for each request, whether it finished within every bound.

    Parameters
    ----------
    columns
        Of the requests.
    slo
        Bounds of all requests; None: there are none.
    deadlines
        Columns with a bound of each request, in seconds, by the latency that they bound. A request without a
        number in it has no such bound.

    Raises
    ------
    ResultError
        If there is no bound at all, no such latency, or a column holds no numbers.
    """
    if slo is None and not deadlines:
        raise ResultError("met() needs bounds: an SLO, deadlines={'ttft': 'column'}, or both, was neither")
    finished: pl.Series = columns["status"] == "finished"
    for name, bound in latency_bounds({} if slo is None else slo.bounds()).items():
        within: pl.Series = columns[name] <= bound
        # Null for a finished request means a single token: no gap, so nothing to exceed.
        finished = finished & within.fill_null(True)
    for latency, column in (deadlines or {}).items():
        kept: pl.Series = columns[_checked(columns, latency, column)] <= columns[column]
        finished = finished & kept.fill_null(True)
    return finished.alias("met")


def _checked(columns: RequestColumns, latency: str, column: str) -> str:
    """Return the column of a latency that another column bounds."""
    if latency not in _COLUMN_OF:
        raise ResultError(f"deadlines must bound {', '.join(_COLUMN_OF)}, was {said(latency)}")
    if column not in columns.names:
        near = close_matches(column, columns.names)
        raise ResultError(f"deadlines must name columns of requests, was {said(column)}{near}")
    if not columns[column].dtype.is_numeric():
        raise ResultError(f"deadlines: column {column!r} must hold seconds, was {columns[column].dtype}")
    return _COLUMN_OF[latency]


def attainment(columns: RequestColumns, within: pl.Series) -> float:
    """Return the share of arrived requests that met their bounds; nan where none arrived."""
    arrived = int((columns["status"] != "not_arrived").sum())
    return int(within.sum()) / arrived if arrived else float("nan")
