"""Names of the columns that hold what a real server was measured to do with a request.

Files of benchmarks and of serving stacks have such measurements beside arrivals and lengths. A reader keeps
them as further columns of the trace, which nothing in a replay reads: a result has them beside the predicted
latencies. All readers use these names and units, so that a comparison needs not know the format.
A request that the file has no value of has null; a column of nulls alone is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

from paceline.errors import TraceError
from paceline.trace.rows import Rows

__all__ = ["MEASURED", "measured_series"]

MEASURED: Final[dict[str, str]] = {
    "measured_ttft": "seconds from sending the request to its first token",
    "measured_tpot": "seconds a token after the first: (e2e - ttft) / (output tokens - 1)",
    "measured_itl": "seconds between two tokens of the request, the mean",
    "measured_e2e": "seconds from sending the request to its last token",
    "measured_queueing": "seconds that the request waited in the server before its prefill",
    "measured_prefill": "seconds of its prefill",
    "measured_client_queueing": "seconds that the client held the request back before it sent it",
    "measured_cached_tokens": "prompt tokens that the server took from its prefix cache",
    "measured_queue_depth": "requests in the server when it received the request",
    "worker": "which instance decoded the request (text)",
    "prefill_worker": "which instance ran its prefill, where that is another (text)",
    "measured_model": "the model that answered (text)",
    "tool_time": "seconds that tools ran between the answer before and this request",
    "conversation": "the conversation or trace that the call belongs to (text)",
    "failure": "why the request failed, as the file says it (text)",
}
"""Each column with its unit and its meaning."""

_COUNTS: Final = frozenset({"measured_cached_tokens", "measured_queue_depth"})
_TEXTS: Final = frozenset({"worker", "prefill_worker", "measured_model", "conversation", "failure"})


def measured_series(
    values: Mapping[str, Sequence[Any]], rows: Rows, *, per_second: Mapping[str, float] | None = None
) -> list[pl.Series]:
    """Return the columns of measurements that have at least one value.

    Parameters
    ----------
    values
        For each name of `MEASURED`, a value a row; None where there is none.
    rows
        Names a row in an error.
    per_second
        For a column that the file has in a smaller unit, how many of it a second has:
        ``{"measured_ttft": 1000.0}`` for milliseconds.

    Raises
    ------
    TraceError
        A number is negative, or not finite.

    Examples
    --------
    >>> from paceline.trace.rows import frame_rows
    >>> given = {"measured_ttft": [31.0, None], "measured_e2e": [None, None]}
    >>> [column.to_list() for column in measured_series(
    ...     given, frame_rows("log"), per_second={"measured_ttft": 1000.0}
    ... )]
    [[0.031, None]]
    """
    kept = []
    for name, cells in values.items():
        if all(cell is None for cell in cells):
            continue
        if name in _TEXTS:
            kept.append(pl.Series(name, [None if cell is None else str(cell) for cell in cells], pl.String()))
            continue
        unit = (per_second or {}).get(name, 1.0)
        numbers = [_number(cell, name, rows, at) for at, cell in enumerate(cells)]
        if name in _COUNTS:
            kept.append(pl.Series(name, [_whole(cell) for cell in numbers], pl.Int64()))
        else:
            kept.append(pl.Series(name, [None if cell is None else cell / unit for cell in numbers]))
    return kept


def _number(cell: Any, name: str, rows: Rows, at: int) -> float | None:  # noqa: ANN401
    if cell is None:
        return None
    try:
        number = float(cell)
    except OverflowError:
        number = math.inf
    if not (math.isfinite(number) and number >= 0):
        raise TraceError(f"{rows.locate(at)}: {name} must be a finite number of at least 0, was {cell}")
    return number


def _whole(cell: float | None) -> int | None:
    return None if cell is None else int(min(cell, 2.0**62))
