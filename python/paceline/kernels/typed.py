"""Columns of a file that a profiler wrote, held to their types."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

import polars as pl

from paceline.errors import ConfigError
from paceline.limits import Limits
from paceline.trace.opening import content

__all__ = ["Kind", "hold_to", "read_csv", "read_text", "without_nulls"]

Kind: TypeAlias = Literal["count", "number", "text", "flag"]
"""A whole number of 0 or more, a finite number, a text, or true and false."""

# Whole numbers up to here are exact as floating-point numbers, in which grids hold them.
_MOST: Final = 2**53

_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False}

_RULES: Final[dict[Kind, str]] = {
    "count": f"must be a whole number from 0 to {_MOST:,}",
    "number": "must be a finite number",
    "text": "must be a text",
    "flag": "must be true or false",
}


def read_csv(
    path: Path,
    columns: Mapping[str, Kind],
    *,
    optional: Mapping[str, Kind] | None = None,
    others: bool = True,
) -> pl.DataFrame:
    """Read columns of a CSV file, plain, gzip or zstd; others are left out.

    Parameters
    ----------
    path
        The file.
    columns
        Those that must be there, and what they hold.
    optional
        Those that may be.
    others
        Whether there may be still others.

    Raises
    ------
    ConfigError
        If the file is no CSV, exceeds a limit, lacks a column or holds something else in one; the message
        names the line.
    """
    limits = Limits.current()
    text = content(path, limits=limits, error=ConfigError)
    first = text[: text.find(b"\n") + 1 or len(text)]
    width = first.count(b",") + 1
    if width > limits.columns:
        raise ConfigError(f"{path}, line 1: columns {limits.over('columns', f'{width:,}')}")
    values = (text.count(b"\n") + 1) * width
    if values > limits.values:
        raise ConfigError(f"{path}: lines times columns {limits.over('values', f'{values:,}')}")
    try:
        frame = pl.read_csv(io.BytesIO(text), infer_schema=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(f"{path} must be CSV with a header: {reason}") from error
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise ConfigError(f"{path} must have the columns {', '.join(columns)}, lacked {', '.join(missing)}")
    unknown = [column for column in frame.columns if column not in {**columns, **(optional or {})}]
    if unknown and not others:
        known = ", ".join({**columns, **(optional or {})})
        raise ConfigError(f"{path}, line 1: unknown column {unknown[0][:60]!r}; it may have {known}")
    kinds = {**columns, **{name: kind for name, kind in (optional or {}).items() if name in frame.columns}}
    return hold_to(frame.select(list(kinds)), kinds, str(path), first=2)


def hold_to(
    frame: pl.DataFrame, kinds: Mapping[str, Kind], what: str, *, first: int = 0, row: str = "line"
) -> pl.DataFrame:
    """Convert columns to their types: counts to 64 bits, numbers to floating point; null stays null.

    Parameters
    ----------
    frame
        Text, or what Parquet holds.
    kinds
        Of its columns.
    what
        The file, for errors.
    first
        The number of the first row.
    row
        What a row is called.

    Raises
    ------
    ConfigError
        If a value is something else; the message names the row.
    """
    held = []
    for name, kind in kinds.items():
        column = frame.get_column(name)
        converted = _converted(column, kind)
        bad = converted.is_null() & column.is_not_null()
        if bad.any():
            at = bad.arg_max()
            assert at is not None
            shown = repr(column[at])
            shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
            raise ConfigError(f"{what}, {row} {first + at}: {name} {_RULES[kind]}, was {shown}")
        held.append(converted.alias(name))
    return pl.DataFrame(held)


def _converted(column: pl.Series, kind: Kind) -> pl.Series:
    """Return a column in its type, with null for what cannot be converted."""
    nothing = {"count": pl.Int64(), "number": pl.Float64(), "text": pl.String(), "flag": pl.Boolean()}[kind]
    textual = column.dtype == pl.String
    if column.dtype == pl.Null or not (textual or (kind != "text" and _is_plain(column.dtype))):
        return pl.Series(column.name, [None] * len(column), dtype=nothing)
    if kind == "text":
        return column
    if kind == "flag":
        words = column.str.strip_chars() if textual else column.cast(pl.String)
        return words.str.to_lowercase().replace_strict(_FLAGS, default=None, return_dtype=pl.Boolean)
    numbers = (column.str.strip_chars() if textual else column).cast(pl.Float64, strict=False)
    good = numbers.is_finite()
    if kind == "count":
        good &= (numbers >= 0) & (numbers <= _MOST) & (numbers == numbers.floor())
    numbers = pl.select(pl.when(good.fill_null(value=False)).then(numbers).otherwise(None)).to_series()
    return numbers.cast(pl.Int64) if kind == "count" else numbers


def _is_plain(dtype: pl.DataType) -> bool:
    return dtype.is_integer() or dtype.is_float() or dtype == pl.Boolean


def without_nulls(frame: pl.DataFrame, what: str, *, first: int = 2, row: str = "line") -> pl.DataFrame:
    """Return the frame, or refuse its first missing value.

    Raises
    ------
    ConfigError
        If a value is missing; the message names the row.
    """
    for column in frame.get_columns():
        at = column.is_null().arg_max() if column.null_count() else None
        if at is not None:
            raise ConfigError(f"{what}, {row} {first + at}: {column.name} is missing")
    return frame


def read_text(path: Path) -> str:
    """Return the text of a small file.

    Raises
    ------
    ConfigError
        If it is not UTF-8, or exceeds a limit.
    """
    try:
        return content(path, error=ConfigError).decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} must be UTF-8 text: {error}") from error
