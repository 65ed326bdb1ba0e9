"""Calls of agents as rows of a trace: turns that wait for answers, forks and joins.

Readers of agents' traces make a `Call` of each request, and `calls_parsed` makes columns of them. A turn
that waited for the turn before it in its session, and for nothing else, gets a ``think_time``. A call that
waited for others gets ``parents`` and ``delay``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from paceline.errors import TraceError
from paceline.limits import Limits
from paceline.trace.blocks import BlockLists
from paceline.trace.columns import numbers
from paceline.trace.measured import measured_series
from paceline.trace.parsed import Parsed
from paceline.trace.rows import Rows

__all__ = ["SECOND", "Call", "calls_parsed", "check_edges", "covered", "nanoseconds"]

SECOND: Final = 10**9

# What an id of `parents` takes in memory is some eight times a number.
_VALUES_AN_EDGE: Final = 8


@dataclass(slots=True, kw_only=True)
class Call:
    """One request, with its moments in nanoseconds of the file's clock.

    Attributes
    ----------
    row, place
        The position of the file's object that it is from, and its place in that object, for messages.
    agent
        The session; None for a call that belongs to none.
    waits
        The calls after whose answers it was sent, as positions among all calls.
    kept
        Values of further columns, by name.
    """

    row: int
    start: int
    end: int
    prompt: Any
    output: Any
    agent: str | None = None
    id: str | None = None
    tenant: str | None = None
    reasoning: Any = None
    prefix: Sequence[int] | npt.NDArray[np.uint64] | None = None
    waits: list[int] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)
    place: str = ""


def nanoseconds(value: Any, per_second: int, rows: Rows, row: int, name: str) -> int:  # noqa: ANN401
    """Return a number of which a second has `per_second` in nanoseconds.

    Raises
    ------
    TraceError
        It is beyond what a stamp can be: the year 2262 in nanoseconds.
    """
    scale = SECOND // per_second
    if not abs(value) < 2**63 / scale:
        raise TraceError(f"{rows.locate(row)}: {name} must be a time, below 2**63 nanoseconds, was {value}")
    return round(value * scale) if isinstance(value, float) else value * scale


def check_edges(count: int, rows: Rows, limits: Limits) -> None:
    """Refuse a file in which calls wait for more answers than fit into memory.

    Raises
    ------
    TraceError
        They exceed the limit ``values``.
    """
    if count * _VALUES_AN_EDGE > limits.values:
        said = f"{count:,} answers of {_VALUES_AN_EDGE} values"
        raise TraceError(f"{rows.name}: answers that calls wait for {limits.over('values', said)}")


def covered(intervals: Sequence[tuple[int, int]], start: int, end: int) -> int:
    """Return how much of the time from `start` to `end` the intervals cover.

    >>> covered([(0, 4), (2, 6), (9, 12)], 1, 10)
    6
    """
    total, reached = 0, start
    for begin, stop in sorted(intervals):
        total += max(0, min(stop, end) - max(begin, reached))
        reached = max(reached, min(stop, end))
    return total


def calls_parsed(
    calls: Sequence[Call],
    rows: Rows,
    limits: Limits,
    *,
    waits: bool,
    prefix: tuple[str, int] | None = None,
    detail: str = "",
    dropped: Mapping[str, int] | None = None,
) -> Parsed:
    """Make the rows of a trace, in the order of their starts.

    Parameters
    ----------
    calls
        In the file's order. A call may wait for calls that start before it, or with it and stand before it.
    rows
        Names an object of the file.
    limits
        Bounds on the calls that are waited for.
    waits
        Whether to make ``think_time``, ``parents`` and ``delay``; else arrivals are the recorded ones.
    prefix
        The file's name of the ids and the tokens of one; None without ids.
    detail, dropped
        As in `Parsed`.

    Raises
    ------
    TraceError
        There is no call, or a value is no number of its kind.
    """
    if not calls:
        raise TraceError(f"{rows.name}: has no request")
    edges = sum(len(call.waits) for call in calls) if waits else 0
    check_edges(edges, rows, limits)
    order = sorted(range(len(calls)), key=lambda at: (calls[at].start, at))
    chosen = [calls[at] for at in order]
    named = Rows(rows.name, lambda at: rows.locate(chosen[at].row) + chosen[at].place)
    first = chosen[0].start
    columns = [
        pl.Series("arrival", [(call.start - first) / SECOND for call in chosen], pl.Float64()),
        numbers("prompt_tokens", [call.prompt for call in chosen], pl.Int64()),
        numbers("output_tokens", [call.output for call in chosen], pl.Int64()),
    ]
    if any(call.reasoning is not None for call in chosen):
        columns.append(numbers("reasoning_tokens", [call.reasoning or 0 for call in chosen], pl.Int64()))
    if any(call.agent is not None for call in chosen):
        columns.append(pl.Series("session", [call.agent for call in chosen], pl.String()))
    if any(call.tenant is not None for call in chosen):
        columns.append(pl.Series("tenant", [call.tenant for call in chosen], pl.String()))
    ids = _ids(calls)
    if any(call.id is not None for call in chosen) or edges:
        columns.append(pl.Series("request_id", [ids[at] for at in order], pl.String()))
    if waits:
        columns += _waiting(calls, order, ids)
    if prefix is not None:
        lists = BlockLists(prefix[0], named)
        lists.add([call.prefix for call in chosen])
        columns.append(lists.column())
    names = list(dict.fromkeys(name for call in chosen for name in call.kept))
    columns += measured_series({name: [call.kept.get(name) for call in chosen] for name in names}, named)
    block_tokens = None if prefix is None else prefix[1]
    return Parsed(
        frame=pl.DataFrame(columns),
        rows=named,
        prefix_block_tokens=block_tokens,
        detail=detail,
        dropped=dict(dropped or {}),
    )


def _ids(calls: Sequence[Call]) -> list[str]:
    """Return an id for each call: the file's own without spaces, or the session's and a number."""
    counts: dict[str | None, int] = defaultdict(int)
    ids = []
    for call in calls:
        counts[call.agent] += 1
        made = call.id if call.id else f"{call.agent or 'call'}:{counts[call.agent]}"
        ids.append("_".join(made.split()) or "_")
    return ids


def _waiting(calls: Sequence[Call], order: Sequence[int], ids: Sequence[str]) -> list[pl.Series]:
    """Return ``think_time``, ``parents`` and ``delay``, without those that are empty."""
    think: list[float | None] = []
    parents: list[list[str]] = []
    delays: list[float | None] = []
    before: dict[str, int] = {}
    for at in order:
        call = calls[at]
        gap = None
        if call.waits:
            gap = max(0, call.start - max(calls[parent].end for parent in call.waits)) / SECOND
        alone = call.agent is not None and call.waits == [before.get(call.agent, -1)]
        think.append(gap if alone else None)
        delays.append(None if alone else gap)
        parents.append([] if alone else [ids[parent] for parent in call.waits])
        if call.agent is not None:
            before[call.agent] = at
    columns = []
    if any(value is not None for value in think):
        columns.append(pl.Series("think_time", think, pl.Float64()))
    if any(parents):
        columns.append(pl.Series("parents", parents, pl.List(pl.String())))
        columns.append(pl.Series("delay", delays, pl.Float64()))
    return columns
