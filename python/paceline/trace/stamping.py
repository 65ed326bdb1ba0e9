"""Stamps that are numbers, as seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from paceline.trace.columns import numbers

__all__ = ["moments", "of_calendar", "scaled"]

# From 1990 to 2100 in seconds since 1970: stamps there are of a calendar, and count from the earliest.
_EPOCH_S: Final = (631_152_000.0, 4_102_444_800.0)


def moments(name: str, values: Sequence[Any], per_second: int) -> pl.Series:
    """Make a column of seconds from stamps, each the nearest number; no stamp stays none.

    Stamps since 1970 count from the earliest of them. They may be text, as tools write numbers of 64 bits.

    Parameters
    ----------
    name
        The column's.
    values
        Numbers, text that holds a number, or None.
    per_second
        Units of a stamp in a second.

    Examples
    --------
    >>> moments("arrival", ["1753780607550317897", None, 1753780609050317897], 10**9).to_list()
    [0.0, None, 1.5]
    """
    cells = [_number(value) if isinstance(value, str) else value for value in values]
    known = [cell for cell in cells if cell is not None]
    if known and of_calendar(min(known), per_second):
        # Whole numbers are subtracted as such: nanoseconds since 1970 have more digits than a float.
        first = min(known)
        cells = [None if cell is None else cell - first for cell in cells]
    return scaled(numbers(name, cells, pl.Float64()), per_second)


def scaled(column: pl.Series, per_second: int) -> pl.Series:
    """Divide a column of numbers, each to the nearest number; polars would multiply by the reciprocal."""
    seconds = pl.Series(column.name, column.cast(pl.Float64).to_numpy() / np.float64(per_second))
    absent = column.is_null()
    if not absent.any():
        return seconds
    return pl.select(pl.when(~absent).then(seconds).alias(column.name)).to_series()


def _number(text: str) -> int | float:
    """Return the number that a text holds, or NaN, which the schema refuses."""
    try:
        return int(text) if len(text) <= 30 else float(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return float("nan")


def of_calendar(first: float, per_second: int) -> bool:
    """Whether a stamp is a moment from 1990 to 2100, counted from 1970."""
    low, high = _EPOCH_S
    return low * per_second <= first <= high * per_second
