"""The columns of a trace, their types and the rules they keep.

The rules are checked here, once, when a trace is built; all other code relies on
them. `traces/schema.md` describes them.
"""

from __future__ import annotations

import warnings
from difflib import get_close_matches
from typing import Final

import numpy as np
import polars as pl

from paceline import _core
from paceline._check import said
from paceline.errors import TraceError, TraceWarning
from paceline.trace.further import further_column
from paceline.trace.moments import seconds_of
from paceline.trace.parents import check_parents
from paceline.trace.rows import Rows

__all__ = [
    "ARRIVAL_LIMIT_S",
    "COLUMNS",
    "REQUIRED",
    "TOKENS_LIMIT",
    "checked",
    "checked_arrival",
    "missing_columns",
    "typed_column",
]

REQUIRED: Final = ("arrival", "prompt_tokens", "output_tokens")

COLUMNS: Final[dict[str, pl.DataType]] = {
    "arrival": pl.Float64(),
    "prompt_tokens": pl.UInt32(),
    "output_tokens": pl.UInt32(),
    "reasoning_tokens": pl.UInt32(),
    "priority": pl.Int32(),
    "score": pl.Float64(),
    "tenant": pl.String(),
    "model": pl.String(),
    "adapter": pl.String(),
    "session": pl.String(),
    "think_time": pl.Float64(),
    "request_id": pl.String(),
    "parents": pl.List(pl.String()),
    "delay": pl.Float64(),
    "not_before": pl.Float64(),
    "cancel_after": pl.Float64(),
    "cancel_after_tokens": pl.UInt32(),
    "prefix": pl.List(pl.UInt64()),
}

_OPTIONAL_TIMES: Final = ("think_time", "delay", "not_before", "cancel_after")
"""Columns of seconds that may be missing in some rows."""

_TAKEN: Final = frozenset(
    {
        *(name for name, *_ in _core.COLUMNS),
        *(
            "queueing",
            "ttft",
            "ttfat",
            "tpot",
            "e2e",
            "normalized_latency",
            "executed",
            "blocked",
            "blocking",
        ),
        *("prediction", "prefix_block_tokens", "metric"),
    }
)
"""Names of columns that results have of their own; `tests/unit/result` compares them."""

# No column of a file can have this name.
_POSITION: Final = "\0position"

# The engine's clock counts picoseconds in 64 bits and may run to 7/8 of that (HORIZON in
# rust/core/src/time.rs), 16,140,901.06 s or 186.8 days; an arrival must leave room to be served.
ARRIVAL_LIMIT_S: Final = 16_140_901.0

# 1990, in seconds since 1970; stamps in smaller units are larger.
_EPOCH_S: Final = 631_152_000.0

# The engine adds up the lengths of a request in 32 bits (LIMIT in rust/core/src/trace/mod.rs).
TOKENS_LIMIT: Final = 2**30


def missing_columns(present: list[str], required: tuple[str, ...]) -> str:
    """List the required columns that are not present, as part of a message."""
    missing = [name for name in required if name not in present]
    return ", ".join(missing)


def checked(frame: pl.DataFrame, *, rows: Rows, prefix_block_tokens: int | None) -> pl.DataFrame:
    """Give the frame in the schema's types and order, sorted by arrival, or refuse it.

    Parameters
    ----------
    frame
        Columns of the schema in any order and any lossless type.
    rows
        Names a row of `frame` in a message.
    prefix_block_tokens
        Prompt tokens of one id in ``prefix``; None without that column.

    Raises
    ------
    TraceError
        The first row that breaks a rule, by column.
    """
    missing = missing_columns(frame.columns, REQUIRED)
    if missing:
        raise TraceError(
            f"{rows.name}: missing {missing}; a trace needs {', '.join(REQUIRED)}, "
            f"had {said(frame.columns)}; name others with columns={{'arrival': 'arrival_s'}}"
        )
    if frame.height == 0:
        raise TraceError(f"{rows.name}: a trace must have at least one request, was empty")
    given = [(frame.get_column(name), dtype) for name, dtype in COLUMNS.items() if name in frame.columns]
    further = [frame.get_column(name) for name in frame.columns if name not in COLUMNS]
    if further:
        _warn_of_near_names([column.name for column in further], rows)
    kept = [further_column(column, rows, _TAKEN) for column in further]
    frame = pl.DataFrame([*(_typed(column, dtype, rows) for column, dtype in given), *kept])
    frame = frame.with_columns(_in_range(frame.get_column("arrival"), rows))
    for name in ("prompt_tokens", "output_tokens"):
        column = frame.get_column(name)
        _refuse(column, column < 1, "must be at least 1", rows)
    _check_optional(frame, rows, prefix_block_tokens)
    if not frame.get_column("arrival").is_sorted():
        frame = frame.with_row_index(_POSITION).sort("arrival", maintain_order=True)
        rows = rows.kept(frame.drop_in_place(_POSITION).to_numpy())
    check_parents(frame, rows)
    return frame.rechunk()


def checked_arrival(arrival: pl.Series, rows: Rows) -> pl.Series:
    """Give the arrivals of a trace in the schema's type, or refuse them; they are not sorted.

    Raises
    ------
    TraceError
        The first row that breaks a rule.
    """
    return _in_range(_typed(arrival, COLUMNS["arrival"], rows), rows)


def typed_column(column: pl.Series, rows: Rows) -> pl.Series:
    """Give a column of a trace in the type that a checked frame has it in, or refuse it.

    Raises
    ------
    TraceError
        The first row whose value has another type, or the name, if results have a column by it.
    """
    if column.name == "arrival":
        return checked_arrival(column, rows)
    if column.name not in COLUMNS:
        return further_column(column, rows, _TAKEN)
    return _typed(column, COLUMNS[column.name], rows)


def _typed(column: pl.Series, dtype: pl.DataType, rows: Rows) -> pl.Series:
    if column.name == "cancel_after_tokens":
        return _optional_tokens(column, rows)
    if dtype == pl.UInt32():
        return _whole(
            column, pl.UInt32(), TOKENS_LIMIT - 1, "must be a whole number from 0 to 2**30 - 1", rows
        )
    if dtype == pl.Int32():
        rule = "must be a whole number from -2**31 to 2**31 - 1"
        return _whole(column, pl.Int32(), 2**31 - 1, rule, rows)
    if dtype == pl.Float64():
        if column.name == "arrival":
            column = _arrivals(column, rows)
        optional = column.name in _OPTIONAL_TIMES
        if not (column.dtype.is_numeric() or (optional and column.null_count() == len(column))):
            raise TraceError(f"{rows.name}: {column.name} must hold numbers, was {column.dtype}")
        numbers = column.cast(pl.Float64, strict=False)
        bad = pl.Series(~np.isfinite(numbers.to_numpy()))  # a null is not finite there
        if optional and column.null_count():
            bad &= column.is_not_null()
        _refuse(column, bad, "must be a finite number", rows)
        return numbers
    if dtype == pl.String():
        named = (pl.String, pl.Null, pl.Categorical, pl.Enum)
        if column.dtype not in named and not column.dtype.is_integer():
            raise TraceError(
                f"{rows.name}: {column.name} must hold text or whole numbers, was {column.dtype}"
            )
        return column.cast(pl.String)
    if dtype == pl.List(pl.String):
        return _ids_of_requests(column, rows)
    if not isinstance(column.dtype, pl.List):
        raise TraceError(f"{rows.name}: {column.name} must hold lists of block ids, was {column.dtype}")
    blocks = column.cast(dtype, strict=False)
    lost = blocks.list.eval(pl.element().is_null()).list.any().fill_null(value=False)
    _refuse(column, lost, "must hold block ids from 0 to 2**64 - 1", rows)
    return blocks.fill_null(pl.Series([[]], dtype=dtype))


def _ids_of_requests(column: pl.Series, rows: Rows) -> pl.Series:
    """Return lists of ids as lists of text; nothing is an empty list."""
    if column.dtype == pl.Null:
        return pl.Series(column.name, [[]] * len(column), dtype=pl.List(pl.String))
    inner = column.dtype.inner if isinstance(column.dtype, pl.List) else None
    if inner is None or not (inner in (pl.String, pl.Null) or inner.is_integer()):
        raise TraceError(f"{rows.name}: {column.name} must hold lists of request ids, was {column.dtype}")
    ids = column.cast(pl.List(pl.String))
    lost = ids.list.eval(pl.element().is_null()).list.any().fill_null(value=False)
    _refuse(column, lost, "must hold no empty id", rows)
    return ids.fill_null(pl.Series([[]], dtype=pl.List(pl.String)))


def _whole(column: pl.Series, dtype: pl.DataType, most: int, rule: str, rows: Rows) -> pl.Series:
    if not column.dtype.is_numeric():
        raise TraceError(f"{rows.name}: {column.name} must hold whole numbers, was {column.dtype}")
    numbers = column if column.dtype == dtype else column.cast(dtype, strict=False)
    bad = numbers > most
    if column.dtype.is_float():
        bad |= column != column.floor()
    _refuse(column, bad.fill_null(value=True) if bad.null_count() else bad, rule, rows)
    return numbers


def _optional_tokens(column: pl.Series, rows: Rows) -> pl.Series:
    """Return numbers of tokens, from 1, that may be missing in some rows."""
    given = column.fill_null(1) if column.dtype.is_numeric() else pl.Series(column.name, [1] * len(column))
    if column.null_count() < len(column):
        rule = "must be a whole number from 1 to 2**30 - 1, or missing"
        given = _whole(
            given if column.dtype.is_numeric() else column, pl.UInt32(), TOKENS_LIMIT - 1, rule, rows
        )
        _refuse(given, given < 1, rule, rows)
    given = given.cast(pl.UInt32)
    return pl.select(pl.when(column.is_not_null()).then(given).alias(column.name)).to_series()


def _arrivals(column: pl.Series, rows: Rows) -> pl.Series:
    """Return arrivals as numbers: dates as seconds since the first."""
    if column.dtype == pl.String:
        raise TraceError(
            f"{rows.name}: arrival must hold seconds, or dates, was text such as {said(column.first())}; "
            "give dates as a column of dates: frame.with_columns(pl.col('arrival').str.to_datetime())"
        )
    seconds = seconds_of(column)
    return column if seconds is None else seconds.alias(column.name)


def _warn_of_near_names(further: list[str], rows: Rows) -> None:
    """Warn of a column that is kept, and whose name is nearly one of the schema's."""
    for name in further:
        near = get_close_matches(name, COLUMNS, n=1, cutoff=0.8)
        if near:
            warnings.warn(
                f"{rows.name}: column {name!r} is kept as it is, and not taken for {near[0]!r}; "
                "rename it if it is meant so",
                TraceWarning,
                stacklevel=4,
            )


def _in_range(arrival: pl.Series, rows: Rows) -> pl.Series:
    _refuse(arrival, arrival < 0, "must not be negative", rows)
    rule = f"must be below {ARRIVAL_LIMIT_S:,.0f} s (186 days, what the clock holds)"
    least = arrival.min()
    if isinstance(least, float) and least >= _EPOCH_S:
        rule += "; these look like times since 1970: subtract the first, and convert to seconds"
    _refuse(arrival, arrival >= ARRIVAL_LIMIT_S, rule, rows)
    return pl.Series(arrival.name, np.abs(arrival.to_numpy()))  # -0.0 equals 0.0, and must hash as it


def _check_optional(frame: pl.DataFrame, rows: Rows, prefix_block_tokens: int | None) -> None:
    if "reasoning_tokens" in frame.columns:
        column = frame.get_column("reasoning_tokens")
        _refuse(column, column > frame.get_column("output_tokens"), "must not exceed output_tokens", rows)
    for name in _OPTIONAL_TIMES:
        if name in frame.columns:
            column = frame.get_column(name)
            rule = f"must be 0 or more seconds and below {ARRIVAL_LIMIT_S:,.0f}"
            _refuse(column, ((column < 0) | (column >= ARRIVAL_LIMIT_S)).fill_null(value=False), rule, rows)
    if "think_time" in frame.columns:
        _check_thinking(frame, rows)
    if "delay" in frame.columns and "parents" in frame.columns:
        column = frame.get_column("delay")
        alone = column.is_not_null() & (frame.get_column("parents").list.len() == 0)
        _refuse(column, alone, "must be left out of a row without parents", rows)
    if "not_before" in frame.columns and not {"think_time", "parents"} & set(frame.columns):
        raise TraceError(
            f"{rows.name}: not_before needs the column think_time or parents: it bounds requests that "
            "wait for answers; others arrive at their arrival"
        )
    if "prefix" not in frame.columns:
        if prefix_block_tokens is not None:
            was = said(prefix_block_tokens)
            msg = f"{rows.name}: prefix_block_tokens was {was} but there is no prefix column"
            raise TraceError(msg)
        return
    if prefix_block_tokens is None or not 1 <= prefix_block_tokens < TOKENS_LIMIT:
        msg = (
            f"{rows.name}: prefix_block_tokens must be the prompt tokens of one id in prefix, "
            f"at least 1, was {said(prefix_block_tokens)}"
        )
        raise TraceError(msg)
    column = frame.get_column("prefix")
    prompt = frame.get_column("prompt_tokens").cast(pl.Int64)
    room = (prompt + (prefix_block_tokens - 1)) // prefix_block_tokens
    rule = f"must not have more ids than the prompt has blocks of {prefix_block_tokens} tokens"
    _refuse(column, column.list.len().cast(pl.Int64) > room, rule, rows)


def _check_thinking(frame: pl.DataFrame, rows: Rows) -> None:
    column = frame.get_column("think_time")
    if "session" not in frame.columns:
        raise TraceError(
            f"{rows.name}: think_time needs the column session: it follows the answer to the turn before"
        )
    alone = column.is_not_null() & frame.get_column("session").is_null()
    _refuse(column, alone, "must be left out of a row without a session", rows)


def _refuse(column: pl.Series, bad: pl.Series, rule: str, rows: Rows) -> None:
    if not bad.any():
        return
    row = bad.arg_max()
    assert row is not None
    value = column[row]
    if isinstance(value, pl.Series):
        value = value.to_list() if len(value) <= 8 else f"{len(value)} ids"
    said = "missing" if value is None else f"{value!r}" if isinstance(value, str) else f"{value}"
    raise TraceError(f"{rows.locate(row)}: {column.name} {rule}, was {said}")
