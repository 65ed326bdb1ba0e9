"""Tables of other libraries as polars frames, and columns by the schema's names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import polars as pl

from paceline._check import said
from paceline._toml import close_matches
from paceline.errors import TraceError

__all__ = ["as_polars", "names_of", "renamed"]


def as_polars(frame: Any, name: str) -> pl.DataFrame:  # noqa: ANN401 - of any library
    """Return a table of polars, Arrow or pandas as a polars frame.

    Raises
    ------
    TraceError
        If it is no such table.
    """
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if isinstance(frame, pl.DataFrame):
        return frame
    try:
        if type(frame).__module__.partition(".")[0] == "pandas":
            # pandas exports Arrow only where pyarrow is installed.
            return pl.DataFrame([_of_pandas(str(column), frame[column]) for column in frame.columns])
        if hasattr(frame, "__arrow_c_stream__"):
            return pl.DataFrame(frame)
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError) as error:
        raise TraceError(f"{name}: the table cannot be converted: {error}") from error
    raise TraceError(f"{name}: a trace must be a table of polars, pandas or Arrow, was {said(frame)}")


def _of_pandas(name: str, column: Any) -> pl.Series:  # noqa: ANN401 - a pandas series
    if getattr(column.dt, "tz", None) is not None if hasattr(column, "dt") else False:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    missing = column.isna().to_numpy()
    values = column.to_numpy()
    if values.dtype.kind in "iufbmM" and not (missing.any() and values.dtype.kind in "iub"):
        series = pl.Series(name, np.array(values))
        return (
            series
            if not missing.any()
            else pl.select(pl.when(pl.Series(~missing)).then(series).alias(name)).to_series()
        )
    cells = [None if lost else value for value, lost in zip(column.tolist(), missing.tolist(), strict=True)]
    return pl.Series(name, cells)


def names_of(columns: Mapping[str, str], present: Collection[str], name: str) -> dict[str, str]:
    """Return the schema's name by the table's.

    Raises
    ------
    TraceError
        If the table has no such column, or would have one by that name twice.
    """
    for ours, theirs in columns.items():
        if theirs not in present:
            raise TraceError(
                f"{name}: columns: there is no column {theirs!r}{close_matches(theirs, present)}"
            )
        if ours in present and ours != theirs and ours not in columns.values():
            raise TraceError(f"{name}: columns: {ours!r} is a column already, beside {theirs!r}; drop one")
    if len(set(columns.values())) < len(columns):
        raise TraceError(f"{name}: columns must name each column once, was {said(dict(columns))}")
    return {theirs: ours for ours, theirs in columns.items()}


def renamed(frame: pl.DataFrame, columns: Mapping[str, str], name: str) -> pl.DataFrame:
    """Return a table with the columns by the schema's names."""
    return frame.rename(names_of(columns, frame.columns, name)) if columns else frame
