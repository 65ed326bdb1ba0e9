"""Traces of coding agents as Weka and SemiAnalysis publish them (cc-traces, AgentX).

One JSON object a play, in lines or as the only one of a file: ``id``, ``requests`` with ``t`` (seconds from
the start of the play), ``in``, ``out``, ``hash_ids``, ``api_time``, and subagents with requests of their
own. A play is a session, each subagent a session of its own. With dependent arrivals, the usual ones here,
a request waits for those of its session that had ended (``t`` and ``api_time``; without one, the next
request's ``think_time`` says when; without both, waiting counts from ``t``); the first of a subagent for
the request before its marker; and the play's next request after a subagent's end for its last one, unless
it ran in the background (``async_launched``). Recorded arrivals let every play start at 0.

The time of a subagent's requests counts from its marker in the files of kv-cache-tester, and from the
play's start in SemiAnalysis's. If any such request of the file is before its marker, all count from their
markers, as in AISimulate. ``hash_ids`` are of one play: equal ids of two plays become different ones.
``ttft`` and ``api_time`` are kept as ``measured_ttft`` and ``measured_e2e``.

Not in the format: when plays started, the tools, reasoning tokens; a play's ``tool_tokens`` and
``system_tokens`` are passed over, as the ids cover them. Plays in files of their own are read together after
``jq -c . *.json > plays.jsonl``.
Source: github.com/callanjfox/kv-cache-tester; huggingface.co/datasets/semianalysisai/cc-traces-weka-062126;
aiperf 0.13, dataset/loader/weka_trace_models.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, Literal, TypeAlias

import msgspec
import numpy as np

from paceline.errors import TraceError
from paceline.trace.calls import Call, calls_parsed, nanoseconds
from paceline.trace.detection import Recognised
from paceline.trace.documents import read_objects
from paceline.trace.jsonlines import Number
from paceline.trace.linking import Fork, link_agents
from paceline.trace.parsed import Parsed
from paceline.trace.rows import Rows

__all__ = ["read_weka"]

# Stamps and durations are rounded to milliseconds.
_SLACK_NS: Final = 2_000_000

_BACKGROUND: Final = "async_launched"


class _Entry(msgspec.Struct, rename={"prompt": "in", "output": "out"}):
    """A request, or the marker of a subagent."""

    t: Number
    type: str = "n"
    prompt: Number | None = None
    output: Number | None = None
    model: str | None = None
    hash_ids: list[int] | None = None
    api_time: Number | None = None
    think_time: Number | None = None
    ttft: Number | None = None
    agent_id: str | None = None
    status: str | None = None
    requests: list[_Entry] | None = None


class _Play(msgspec.Struct):
    id: str
    requests: list[_Entry]
    block_size: int = 64
    hash_id_scope: Literal["local", "global"] = "local"


# A list of entries with the session that they are of and the nanoseconds to add to their times.
_Level: TypeAlias = "tuple[list[_Entry], str, int, str]"


def read_weka(found: Recognised, name: str) -> Parsed:
    """Read plays of coding agents."""
    objects, rows = read_objects(found, name, _Play)
    plays = list(objects)
    relative = any(_counts_from_marker(play.requests) for play in plays)
    reader = _Reader(rows, relative=relative)
    sizes = {play.block_size for play in plays}
    if len(sizes) > 1:
        raise TraceError(f"{name}: block_size must be the same in all plays, was {sorted(sizes)}")
    ids = 0
    for row, play in enumerate(plays):
        first = len(reader.calls)
        reader.read(play, row)
        if play.hash_id_scope == "local":
            ids = _renumber(reader.calls[first:], ids, rows)
    waits = found.choices.arrivals != "recorded"
    if waits:
        link_agents(reader.calls, reader.forks, rows, found.limits, slack=_SLACK_NS)
    prefix = None
    if any(call.prefix is not None and len(call.prefix) for call in reader.calls):
        prefix = ("hash_ids", sizes.pop())
    times = "counts from the marker" if relative else "counts from the play's start"
    detail = f"time of subagents {times}" if reader.forks else "without subagents"
    return calls_parsed(reader.calls, rows, found.limits, waits=waits, prefix=prefix, detail=detail)


def _counts_from_marker(entries: list[_Entry]) -> bool:
    """Whether a request of a subagent is before its marker, so that its time must count from there."""
    levels = [entries]
    while levels:
        for entry in levels.pop():
            if entry.requests is None:
                continue
            if any(inner.t < entry.t - 0.001 for inner in entry.requests):
                return True
            levels.append(entry.requests)
    return False


class _Reader:
    """Makes calls of plays."""

    def __init__(self, rows: Rows, *, relative: bool) -> None:
        self.calls: list[Call] = []
        self.forks: dict[str, Fork] = {}
        self._rows = rows
        self._relative = relative
        self._sessions: dict[str, int] = {}
        self._requests: dict[str, int] = {}

    def read(self, play: _Play, row: int) -> None:
        """Add the calls of a play, which is the object `row` of the file."""
        levels: list[_Level] = [(play.requests, self._session(play.id), 0, "")]
        while levels:
            entries, session, offset, place = levels.pop()
            before: int | None = None
            for at, entry in enumerate(entries):
                here = f"{place}, requests[{at}]"
                start = offset + nanoseconds(entry.t, 1, self._rows, row, "t")
                if entry.requests is None:
                    before = self._add(entry, session, start, row, here)
                    continue
                child = self._session(f"{session}/{entry.agent_id or at}")
                joins = entry.status != _BACKGROUND
                self.forks[child] = Fork(parent=session, call=before, joins=joins)
                levels.append((entry.requests, child, start if self._relative else 0, here))

    def _session(self, name: str) -> str:
        """Return a name that no session before has."""
        count = self._sessions[name] = self._sessions.get(name, 0) + 1
        return name if count == 1 else self._session(f"{name}#{count}")

    def _add(self, entry: _Entry, session: str, start: int, row: int, place: str) -> int:
        took = nanoseconds(entry.api_time or 0, 1, self._rows, row, "api_time")
        if entry.prompt is None or entry.output is None:
            raise TraceError(f"{self._rows.locate(row)}{place}: a request must have in and out")
        last = self.calls[-1] if self.calls else None
        if last is not None and last.agent == session and last.end == last.start and entry.think_time:
            thought = nanoseconds(entry.think_time, 1, self._rows, row, "think_time")
            last.end = max(last.start, start - thought)
        kept: dict[str, Any] = {
            "measured_ttft": entry.ttft,
            "measured_e2e": entry.api_time,
            "measured_model": entry.model,
        }
        number = self._requests[session] = self._requests.get(session, 0) + 1
        self.calls.append(
            Call(
                row=row,
                place=place,
                start=start,
                end=start + took,
                prompt=entry.prompt,
                output=entry.output,
                agent=session,
                id=f"{session}:{number}",
                prefix=entry.hash_ids,
                kept=kept,
            )
        )
        return len(self.calls) - 1


def _renumber(calls: Sequence[Call], first: int, rows: Rows) -> int:
    """Give the ids of one play numbers from `first` on; return the number after the last."""
    lists = [[] if call.prefix is None else call.prefix for call in calls]
    try:
        joined = np.fromiter(chain.from_iterable(lists), dtype=np.uint64, count=sum(map(len, lists)))
    except OverflowError as error:
        raise TraceError(
            f"{rows.locate(calls[0].row)}: hash_ids must hold ids from 0 to 2**64 - 1"
        ) from error
    distinct, numbered = np.unique(joined, return_inverse=True)
    numbers = numbered.astype(np.uint64) + np.uint64(first)
    start = 0
    for call, ids in zip(calls, lists, strict=True):
        call.prefix = numbers[start : start + len(ids)]
        start += len(ids)
    return first + len(distinct)
