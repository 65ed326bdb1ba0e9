"""Columns of text as numbers, each refusal naming the row.

Readers take a file's fields as text, so that an error can show a field that is no
number as it was written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from paceline.errors import TraceError
from paceline.trace.rows import Rows
from paceline.trace.schema import TOKENS_LIMIT

__all__ = [
    "Values",
    "are_stamps",
    "blocks",
    "complaint",
    "numbers",
    "optional",
    "scores",
    "seconds",
    "stamps",
    "tokens",
    "whole",
]

Values: TypeAlias = Sequence[Any] | npt.NDArray[Any] | pl.Series

# A zero fraction after a whole number, as tools that hold lengths as floats write it.
_ZERO_FRACTION: Final = r"^([0-9]+)\.0*$"

_STAMP: Final = r"^(19|20|21)\d\d-\d\d-\d\d[ T]\d\d:\d\d:[0-5]\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?$"


def tokens(text: pl.Series, rows: Rows) -> pl.Series:
    """Read token counts: whole numbers from 0 to 2**30 - 1; 4808.0 is taken for 4808."""
    return _whole(text, pl.UInt32(), TOKENS_LIMIT - 1, rows)


def whole(text: pl.Series, rows: Rows) -> pl.Series:
    """Read whole numbers of 32 bits, of either sign."""
    rule = "must be a whole number from -2**31 to 2**31 - 1"
    return _whole(text, pl.Int32(), 2**31 - 1, rows, rule)


def seconds(text: pl.Series, rows: Rows) -> pl.Series:
    """Read times in seconds: finite and not negative."""
    numbers = scores(text, rows)
    negative = numbers < 0
    if negative.any():
        raise _refusal(text, negative, rows, "must not be negative")
    return numbers


def optional(text: pl.Series, rows: Rows) -> pl.Series:
    """Read finite numbers that are not negative; an empty field is null."""
    numbers = text.cast(pl.Float64, strict=False)
    bad = text.is_not_null() & ~(numbers.is_finite() & (numbers >= 0)).fill_null(value=False)
    if bad.any():
        raise _refusal(text, bad, rows, "must be a finite number, not negative")
    return numbers


def scores(text: pl.Series, rows: Rows) -> pl.Series:
    """Read finite numbers."""
    numbers = text.cast(pl.Float64, strict=False)
    bad = ~numbers.is_finite().fill_null(value=False)
    if bad.any():
        raise _refusal(text, bad, rows, "must be a finite number")
    return numbers


def stamps(text: pl.Series, rows: Rows) -> pl.Series:
    """Read dates and times as seconds since the earliest of them: the nearest number to each difference.

    ``2023-11-16 18:17:03.9799600``, with up to nine digits of fraction and, if at all, with the same
    kind of zone in every row.
    """
    good = text.str.contains(_STAMP).fill_null(value=False)
    plain = text.str.replace("T", " ", literal=True).str.replace("Z", "+00:00", literal=True)
    zoned = bool(plain.str.contains(r"[+-]\d\d:\d\d$").any())
    pattern = "%Y-%m-%d %H:%M:%S%.f" + ("%:z" if zoned else "")
    read = plain.str.to_datetime(pattern, time_unit="ns", time_zone="UTC" if zoned else None, strict=False)
    bad = ~good | read.is_null()
    if bad.any():
        raise _refusal(text, bad, rows, "must be a date and time like 2023-11-16 18:17:03.9799600")
    nanoseconds = read.to_physical().to_numpy()
    return pl.Series(text.name, _divided(nanoseconds - nanoseconds.min(), 10**9))


def are_stamps(text: pl.Series) -> bool:
    """Whether a column of text starts with a date and time."""
    first = text.first()
    return isinstance(first, str) and bool(pl.Series([first]).str.contains(_STAMP)[0])


def _divided(whole: npt.NDArray[np.int64], by: int) -> npt.NDArray[np.float64]:
    """Divide whole numbers. polars would multiply by the reciprocal, which is not the nearest number."""
    if whole.size and int(whole.max()) >= 2**53:
        # Too long for a float: 104 days in nanoseconds.
        return whole // by + (whole % by) / by
    return whole / by


def blocks(text: pl.Series, rows: Rows) -> pl.Series:
    """Read block ids parted by single spaces; an empty field is no block."""
    kind = pl.List(pl.UInt64)
    given = text.fill_null("")
    parts = given.str.split(" ").cast(kind, strict=False)
    ids = pl.select(pl.when(given == "").then(pl.lit([], dtype=kind)).otherwise(parts)).to_series()
    bad = ids.list.eval(pl.element().is_null()).list.any().fill_null(value=False)
    if bad.any():
        raise _refusal(text, bad, rows, "must be block ids from 0 to 2**64 - 1 parted by spaces")
    return ids.alias(text.name)


def numbers(name: str, values: Sequence[Any], dtype: pl.DataType) -> pl.Series:
    """Make a column of `dtype`, or of floats where some values are no whole number or too large.

    Raises
    ------
    TypeError, ValueError
        A value is no number.
    """
    try:
        return pl.Series(name, values, dtype=dtype)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series(name, [_as_float(value) for value in values], dtype=pl.Float64)


def _as_float(value: Any) -> float | None:  # noqa: ANN401
    try:
        return None if value is None else float(value)
    except OverflowError:
        return math.inf


def _whole(text: pl.Series, dtype: pl.DataType, most: int, rows: Rows, rule: str | None = None) -> pl.Series:
    numbers = text.cast(dtype, strict=False)
    if numbers.null_count():
        numbers = text.str.replace(_ZERO_FRACTION, "$1").cast(dtype, strict=False)
    bad = numbers.is_null() | (numbers > most).fill_null(value=True)
    if bad.any():
        raise _refusal(text, bad, rows, rule)
    return numbers


def _refusal(text: pl.Series, bad: pl.Series, rows: Rows, rule: str | None) -> TraceError:
    row = bad.arg_max()
    assert row is not None
    return TraceError(f"{rows.locate(row)}: {text.name} {complaint(text[row], rule)}")


def complaint(value: str | None, rule: str | None = None) -> str:
    """Say what is wrong with a field; without a `rule`, one that must hold a count of tokens."""
    if value is None or value == "":
        return "is missing"
    if rule is None:
        rule = _broken_rule(value)
    shown = value if len(value) <= 60 else f"{value[:57]}..."
    return f"{rule}, was {shown!r}"


def _broken_rule(value: str) -> str:
    try:
        number = float(value)
    except ValueError:
        return "must be a whole number"
    if math.isnan(number):
        return "must be a whole number"
    if math.isfinite(number) and number != math.floor(number):
        return "must be a whole number, not a fraction"
    if number < 0:
        return "must not be negative"
    if number >= TOKENS_LIMIT:
        return "must be below 2**30"
    return "must be a whole number in plain digits"
