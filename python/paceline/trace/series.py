"""Values of any kind as a column of a trace."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import polars as pl

from paceline.trace.columns import Values, numbers
from paceline.trace.schema import COLUMNS

__all__ = ["series"]


def series(column: str, values: Values) -> pl.Series:
    """Return values as a column, in the schema's type where it has one.

    Raises
    ------
    TypeError, ValueError
        If a value is of another kind.
    """
    if isinstance(values, pl.Series):
        return values.alias(column)
    if isinstance(values, np.ndarray):
        # polars may share an array's memory, and the caller may write to it later.
        return pl.Series(column, values.copy())
    dtype = COLUMNS.get(column)
    if dtype is None or column == "parents" or (column == "arrival" and _are_dates(values)):
        return pl.Series(column, values)
    if dtype == pl.String() and any(isinstance(value, int) for value in values):
        return pl.Series(column, values, dtype=pl.Int64())
    return (
        numbers(column, values, pl.Int64()) if dtype.is_integer() else pl.Series(column, values, dtype=dtype)
    )


def _are_dates(values: Values) -> bool:
    first = next(iter(values), None)
    return isinstance(first, date | timedelta)
