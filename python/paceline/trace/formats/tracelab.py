"""TraceLab's traces of coding agents.

JSON Lines, one round a line: ``session_id``, ``round_index``, ``input_tokens_total``, ``prefix_tokens``,
``output_tokens``, ``timing_events`` and ``tools``. A round is sent at the last message or tool result that
it answers, and ends with the last text, reasoning or tool call of the model. Rounds of a session follow
each other: with dependent arrivals, what passed between the end of one and the next, tools and the human's
wait, is the ``think_time``; ``tool_time`` is how much of it tools ran. ``user`` is kept as ``tenant``, the
round's length as ``measured_e2e`` (from the agent's log, as the provider reports none) and
``prefix_tokens``, which the provider took from its cache, as ``measured_cached_tokens``.

There are no hashes: ids of ``prefix`` are made, for blocks of 64 tokens unless ``block_tokens`` says
otherwise. A round keeps the ids of the round before for the blocks in its ``prefix_tokens`` and gets new
ones for the rest; after a compaction of the context, where fewer tokens are kept, the new prefix starts
there. So a miss of the provider's cache looks like other text. ``output_tokens`` include
``reasoning_output_tokens``, as the providers count.

With dependent arrivals, sessions that ran within a call of a tool that starts agents wait for that call, and
the next round of its session for them (:mod:`paceline.trace.formats.tracelab_agents`). Not in the format:
TTFT, what sessions share with each other, and which session started which. A round without stamps is dropped
and counted.
Source: github.com/uw-syfi/TraceLab, release v0.0.1 and artifacts/utils/DB_SCHEMA.md; ids as in aiperf 0.13,
dataset/loader/_tracelab_convert.py.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from paceline.errors import TraceError
from paceline.limits import Limits
from paceline.trace.calls import SECOND, Call, calls_parsed, covered
from paceline.trace.detection import Recognised
from paceline.trace.formats.tracelab_agents import STARTING, Window, started
from paceline.trace.jsonlines import Number, read_json_lines
from paceline.trace.linking import link_agents
from paceline.trace.parsed import Parsed

__all__ = ["read_tracelab"]

# aiperf's block size for this trace.
_BLOCK_TOKENS: Final = 64

_IN: Final = frozenset({"user_message", "tool_result"})
_OUT: Final = frozenset({"text", "reasoning", "tool_call"})

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _Event(msgspec.Struct):
    event_type: str
    timestamp: datetime | None = None


class _Tool(msgspec.Struct):
    tool_name: str | None = None
    emitted_at: datetime | None = None
    result_at: datetime | None = None


class _Round(msgspec.Struct):
    session_id: str
    input_tokens_total: Number
    output_tokens: Number | None = None
    prefix_tokens: Number | None = None
    reasoning_output_tokens: Number | None = None
    model: str | None = None
    user: str | None = None
    project: str | None = None
    timing_events: list[_Event] | None = None
    tools: list[_Tool] | None = None


def read_tracelab(found: Recognised, name: str) -> Parsed:
    """Read a trace of TraceLab."""
    size = _BLOCK_TOKENS if found.choices.block_tokens is None else found.choices.block_tokens
    parts, rows = read_json_lines(found.text, name, _Round, found.limits)
    rounds = _Rounds()
    for part in parts:
        for line in part:
            rounds.add(line)
    rounds.order(_Minter(size), found.limits, name)
    waits = found.choices.waits(name, stamped=True)
    detail = ""
    if waits:
        forks = started(rounds.windows, rounds.spans, rounds.owners, found.limits, name)
        link_agents(rounds.calls, forks, rows, found.limits)
        detail = f"{len(forks)} sessions started by others" if forks else ""
    return calls_parsed(
        rounds.calls,
        rows,
        found.limits,
        waits=waits,
        prefix=("prefix_tokens", size),
        detail=detail,
        dropped={"no time": rounds.undated} if rounds.undated else {},
    )


class _Rounds:
    """The rounds of a file, by session."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.windows: list[Window] = []
        self.spans: dict[str, tuple[int, int]] = {}
        self.owners: dict[str, tuple[str | None, str | None]] = {}
        self.undated = 0
        self._row = 0
        self._sessions: dict[str, list[tuple[int, int]]] = {}
        self._tools: list[list[tuple[int, int]]] = []
        self._kept: list[float] = []

    def add(self, line: _Round) -> None:
        """Add a line."""
        call = _call(line, self._row)
        self._row += 1
        if call is None:
            self.undated += 1
            return
        session, at = line.session_id, len(self.calls)
        self._sessions.setdefault(session, []).append((call.start, at))
        self.owners.setdefault(session, (line.user, line.project))
        ran = [(_ns(tool.emitted_at), _ns(tool.result_at), tool) for tool in line.tools or [] if _dated(tool)]
        self.windows += [
            Window(end - start, start, end, session, at)
            for start, end, tool in ran
            if tool.tool_name in STARTING
        ]
        stamps = [_ns(event.timestamp) for event in line.timing_events or [] if event.timestamp is not None]
        stamps += [stamp for start, end, _ in ran for stamp in (start, end)]
        begin, end = self.spans.get(session, (min(stamps), max(stamps)))
        self.spans[session] = (min(begin, *stamps), max(end, *stamps))
        self.calls.append(call)
        self._tools.append([(start, end) for start, end, _ in ran])
        self._kept.append(line.prefix_tokens or 0)

    def order(self, minter: _Minter, limits: Limits, name: str) -> None:
        """Let each round wait for the one before it in its session, and give it ids."""
        for rounds in self._sessions.values():
            before: int | None = None
            ids: npt.NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
            for _, at in sorted(rounds):
                call = self.calls[at]
                ids = call.prefix = minter.ids(ids, self._kept[at], call.prompt)
                if before is not None:
                    call.waits = [before]
                    since = self.calls[before].end
                    call.kept["tool_time"] = covered(self._tools[before], since, call.start) / SECOND
                before = at
                if minter.made > 4 * limits.values:
                    over = limits.over("values", f"{minter.made:,} ids, four a value")
                    raise TraceError(f"{name}: ids of prefixes {over}; or give larger block_tokens")


class _Minter:
    """Makes ids of blocks; `made` counts those of all lists."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._next = 0
        self.made = 0

    def ids(self, before: npt.NDArray[np.uint64], kept: float, total: float) -> npt.NDArray[np.uint64]:
        """Return the ids of `total` tokens of which the first `kept` are those of the round before."""
        count = int(min(max(total, 0), 2**30)) // self._size
        same = min(int(min(max(kept, 0), 2**30)) // self._size, len(before), count)
        fresh = np.arange(self._next, self._next + count - same, dtype=np.uint64)
        self._next += count - same
        self.made += count
        return np.concatenate([before[:same], fresh])


def _call(line: _Round, row: int) -> Call | None:
    """Return a round's call, without its prefix; None if no event has a stamp."""
    events = [event for event in line.timing_events or [] if event.timestamp is not None]
    asked = [_ns(event.timestamp) for event in events if event.event_type in _IN]
    answered = [_ns(event.timestamp) for event in events if event.event_type in _OUT]
    if not asked and not answered:
        return None
    start = max(asked) if asked else min(answered)
    end = max(start, max(answered, default=start))
    return Call(
        row=row,
        start=start,
        end=end,
        prompt=line.input_tokens_total,
        output=line.output_tokens or 0,
        reasoning=line.reasoning_output_tokens,
        agent=line.session_id,
        tenant=line.user,
        kept={
            "measured_e2e": (end - start) / SECOND if answered else None,
            "measured_cached_tokens": line.prefix_tokens,
            "measured_model": line.model,
        },
    )


def _dated(tool: _Tool) -> bool:
    return tool.emitted_at is not None and tool.result_at is not None


def _ns(stamp: datetime | None) -> int:
    """Return nanoseconds since 1970; a stamp without a zone is UTC."""
    assert stamp is not None
    aware = stamp if stamp.tzinfo is not None else stamp.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1) * 1000
