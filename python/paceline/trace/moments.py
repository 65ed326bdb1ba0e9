"""Arrivals that are dates, as seconds since the first of them."""

from __future__ import annotations

import polars as pl

__all__ = ["seconds_of"]

_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}


def seconds_of(column: pl.Series) -> pl.Series | None:
    """Return a column of dates, of times with dates, or of durations in seconds; None if it holds none.

    Dates count from the earliest of them, durations from zero. Each second is the nearest number to the
    difference.
    """
    if column.dtype == pl.Date:
        column = column.cast(pl.Datetime("ms"))
    if not isinstance(column.dtype, pl.Datetime | pl.Duration):
        return None
    physical = column.to_physical().cast(pl.Int64)
    if isinstance(column.dtype, pl.Datetime):
        physical = physical - physical.min()
    per_second = _PER_SECOND[column.dtype.time_unit]
    # A whole number of units need not fit into a float; its seconds and the rest do.
    return physical // per_second + (physical % per_second).cast(pl.Float64) / per_second
