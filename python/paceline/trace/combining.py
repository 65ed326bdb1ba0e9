"""Laying traces end to end."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import polars as pl

from paceline.errors import TraceError
from paceline.trace.schema import COLUMNS

__all__ = ["concatenated"]

_NEUTRAL: Final[dict[str, Any]] = {
    "reasoning_tokens": 0,
    "priority": 0,
    "tenant": None,
    "model": None,
    "adapter": None,
    "session": None,
    "think_time": None,
    "request_id": None,
    "parents": [],
    "delay": None,
    "not_before": None,
    "cancel_after": None,
    "cancel_after_tokens": None,
    "prefix": [],
}

Part: TypeAlias = tuple[str, pl.DataFrame, "int | None", Mapping[str, int]]


def concatenated(parts: Sequence[Part], *, gap_s: float) -> tuple[pl.DataFrame, int | None, dict[str, int]]:
    """Join named frames, each shifted to start `gap_s` after the last arrival before it.

    Returns the frame, the tokens of a prefix block, and the dropped rows by reason.
    """
    if not parts:
        raise TraceError("concat needs at least one trace, was given none")
    if not (math.isfinite(gap_s) and gap_s >= 0):
        raise TraceError(f"gap_s must be a finite number of seconds, at least 0, was {gap_s}")
    present = {column for _, frame, _, _ in parts for column in frame.columns}
    sizes = {size for _, _, size, _ in parts if size is not None}
    if len(sizes) > 1:
        raise TraceError(f"traces with prefixes must share one block size, were {sorted(sizes)} tokens")
    further = list(
        dict.fromkeys(name for _, frame, _, _ in parts for name in frame.columns if name not in COLUMNS)
    )
    dropped: Counter[str] = Counter()
    shifted: list[pl.DataFrame] = []
    start = 0.0
    for name, frame, _, lost in _with_own_ids(parts):
        if "score" in present and "score" not in frame.columns:
            raise TraceError(
                f"{name}: score is missing here and present in another; give all a score or none"
            )
        filled = [
            pl.lit(_NEUTRAL[column], dtype=dtype).alias(column)
            for column, dtype in COLUMNS.items()
            if column in present and column not in frame.columns
        ]
        filled += [pl.lit(None).alias(column) for column in further if column not in frame.columns]
        moments = [column for column in ("arrival", "not_before") if column in frame.columns]
        whole = frame.with_columns(pl.col(*moments) + start, *filled)
        shifted.append(whole.select(*(column for column in COLUMNS if column in present), *further))
        start = whole.get_column("arrival")[-1] + gap_s
        dropped.update(lost)
    try:
        whole = pl.concat(shifted, how="vertical_relaxed")
    except pl.exceptions.PolarsError as error:
        raise TraceError(f"a column that several traces have must have one type in all: {error}") from error
    return whole, next(iter(sizes), None), dict(dropped)


def _with_own_ids(parts: Sequence[Part]) -> Iterator[Part]:
    """Yield the parts, each with ids of requests of its own: a number follows where one was taken."""
    taken: set[str] = set()
    for count, (name, frame, size, lost) in enumerate(parts, start=1):
        if "request_id" in frame.columns:
            own = set(frame.get_column("request_id").drop_nulls())
            if not own.isdisjoint(taken):
                end = pl.lit(f"#{count}")
                renamed = [pl.col("request_id") + end]
                if "parents" in frame.columns:
                    renamed.append(pl.col("parents").list.eval(pl.element() + end))
                frame = frame.with_columns(renamed)
                own = set(frame.get_column("request_id").drop_nulls())
            taken |= own
        yield name, frame, size, lost
