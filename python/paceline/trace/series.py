"""Values of any kind as a column of a trace."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import chain
from typing import Final

import numpy as np
import polars as pl

from paceline.trace.columns import Values, numbers
from paceline.trace.schema import COLUMNS

__all__ = ["series"]

_MANY: Final = 100
"""Lists of which polars takes longer to make a series each than to group their joined values."""


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
    if dtype.is_integer():
        return numbers(column, values, pl.Int64())
    if column == "prefix" and len(values) >= _MANY and set(map(type, values)) <= {list, tuple}:
        return _lists_of_ids(column, values)
    return pl.Series(column, values, dtype=dtype)


def _lists_of_ids(column: str, values: Values) -> pl.Series:
    """Return lists of whole numbers as a column; polars makes a series of each list that it is given."""
    if not set(map(type, chain.from_iterable(values))) <= {int}:
        return pl.Series(column, values, dtype=COLUMNS[column])
    rows = np.arange(len(values))
    each = np.repeat(rows, np.fromiter(map(len, values), dtype=np.int64, count=len(values)))
    ids = pl.DataFrame({"row": each, column: pl.Series(list(chain.from_iterable(values)), dtype=pl.UInt64())})
    lists = ids.group_by("row", maintain_order=True).agg(column)
    joined = pl.DataFrame({"row": rows}).join(lists, on="row", how="left", maintain_order="left")
    return joined.get_column(column).fill_null(pl.Series([[]], dtype=COLUMNS[column]))


def _are_dates(values: Values) -> bool:
    first = next(iter(values), None)
    return isinstance(first, date | timedelta)
