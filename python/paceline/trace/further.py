"""Columns of a trace beyond those of the schema: kept as they are, for results to be grouped by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import polars as pl

from paceline.errors import TraceError
from paceline.trace.rows import Rows

__all__ = ["further_column", "inferred"]

# A number as it is written again: of `007` only the text is.
_WHOLE: Final = r"^(0|-?[1-9][0-9]{0,17})$"
_NUMBER: Final = r"^-?([0-9]+\.[0-9]+([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|0|[1-9][0-9]{0,17})$"


def further_column(column: pl.Series, rows: Rows, taken: Iterable[str]) -> pl.Series:
    """Return a column that is kept, with numbers in 64 bits and categories as text.

    Parameters
    ----------
    column
        Values of any type that Arrow has.
    rows
        Names the table in an error.
    taken
        The names that results have for columns of their own.

    Raises
    ------
    TraceError
        If its name is taken or empty, or its values are Python objects.
    """
    if column.name in taken or not column.name:
        raise TraceError(
            f"{rows.name}: column {column.name!r} must have another name: results have a column of their own "
            "by that name; rename it"
        )
    if column.dtype == pl.Object:
        raise TraceError(f"{rows.name}: column {column.name!r} must hold numbers, text or dates, was objects")
    if column.dtype in (pl.Categorical, pl.Enum):
        return column.cast(pl.String)
    if column.dtype.is_float():
        return column.cast(pl.Float64)
    if column.dtype.is_integer() and column.dtype not in (pl.UInt64, pl.Int128):
        return column.cast(pl.Int64)
    return column


def inferred(text: pl.Series) -> pl.Series:
    """Return a column of text as numbers or truth values if every value is written as one."""
    values = text.drop_nulls()
    if values.is_empty():
        return text
    if values.str.contains(_WHOLE).all():
        return text.cast(pl.Int64)
    if values.str.contains(_NUMBER).all():
        return text.cast(pl.Float64)
    if values.is_in(["true", "false"]).all():
        return (text == "true").alias(text.name)
    return text
