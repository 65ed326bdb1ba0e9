"""Dynamo's request traces, ``dynamo.request.trace.v1``.

JSON Lines of events. A ``request_end`` has when the request was received, its lengths, and what was
measured of it: TTFT, mean ITL, latency, waiting, prefill, cached tokens and workers, which become the
columns of :data:`MEASURED <paceline.trace.measured.MEASURED>`. ``input_sequence_hashes`` become ``prefix``:
one hash for each block of ``trace_block_size`` prompt tokens, of all tokens up to its end.
``agent_context`` gives sessions and their parents, tools give ``tool_time``. With dependent arrivals, a
request waits for those of its session that had ended when it was received; the first of a session for those
of its parent session; and the parent's next request after its end for the session's last. Payload events
are passed over.

Not in the format: reasoning tokens and priorities. Gaps between two requests of a session are tools and
humans; ``tool_time`` says how much of it tools took.
Source: github.com/ai-dynamo/dynamo, lib/llm/src/request_trace/types.rs.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final, Literal

import msgspec

from paceline.errors import TraceError
from paceline.trace.calls import SECOND, Call, calls_parsed, covered, nanoseconds
from paceline.trace.detection import Recognised
from paceline.trace.jsonlines import Number, read_json_lines
from paceline.trace.linking import Fork, link_agents
from paceline.trace.parsed import Parsed
from paceline.trace.rows import Rows

__all__ = ["read_dynamo"]

_MS: Final = 1000

# Stamps are whole milliseconds.
_SLACK_NS: Final = 2_000_000

_MEASURED: Final = {
    "measured_ttft": "ttft_ms",
    "measured_itl": "avg_itl_ms",
    "measured_e2e": "total_time_ms",
    "measured_queueing": "prefill_wait_time_ms",
    "measured_prefill": "prefill_time_ms",
}


class _Agent(msgspec.Struct):
    session_id: str
    parent_session_id: str | None = None


class _Worker(msgspec.Struct):
    prefill_worker_id: int | None = None
    prefill_dp_rank: int | None = None
    decode_worker_id: int | None = None
    decode_dp_rank: int | None = None


class _Replay(msgspec.Struct):
    trace_block_size: int
    input_length: int
    input_sequence_hashes: list[int]


class _Request(msgspec.Struct):
    request_id: str
    model: str | None = None
    input_tokens: Number | None = None
    output_tokens: Number | None = None
    cached_tokens: Number | None = None
    request_received_ms: Number | None = None
    prefill_wait_time_ms: Number | None = None
    prefill_time_ms: Number | None = None
    ttft_ms: Number | None = None
    total_time_ms: Number | None = None
    avg_itl_ms: Number | None = None
    queue_depth: Number | None = None
    worker: _Worker | None = None
    replay: _Replay | None = None


class _Tool(msgspec.Struct):
    started_at_unix_ms: Number | None = None
    ended_at_unix_ms: Number | None = None
    duration_ms: Number | None = None


class _Event(msgspec.Struct):
    schema: Literal["dynamo.request.trace.v1"]
    event_type: str
    event_time_unix_ms: Number
    agent_context: _Agent | None = None
    request: _Request | None = None
    tool: _Tool | None = None


def read_dynamo(found: Recognised, name: str) -> Parsed:
    """Read a request trace of Dynamo."""
    parts, rows = read_json_lines(found.text, name, _Event, found.limits)
    calls: list[Call] = []
    tools: dict[str, list[tuple[int, int]]] = defaultdict(list)
    forks: dict[str, Fork] = {}
    size: int | None = None
    row = 0
    for part in parts:
        for event in part:
            agent = event.agent_context
            if agent is not None and agent.parent_session_id is not None:
                forks.setdefault(agent.session_id, Fork(parent=agent.parent_session_id))
            if event.event_type == "request_end":
                call, block = _call(event, rows, row)
                calls.append(call)
                if block is not None and size not in (None, block):
                    raise TraceError(
                        f"{rows.locate(row)}: trace_block_size must be the same in all requests, "
                        f"{size} before, was {block}"
                    )
                size = size if block is None else block
            elif event.event_type in ("tool_end", "tool_error") and event.tool and agent is not None:
                tools[agent.session_id].append(_ran(event, event.tool, rows, row))
            row += 1
    _add_tools(calls, tools)
    waits = found.choices.waits(name, stamped=True)
    if waits:
        link_agents(calls, forks, rows, found.limits, slack=_SLACK_NS)
    prefix = None
    if size is not None:
        prefix = ("input_sequence_hashes", size)
    detail = "with sessions" if any(call.agent is not None for call in calls) else ""
    return calls_parsed(calls, rows, found.limits, waits=waits, prefix=prefix, detail=detail)


def _call(event: _Event, rows: Rows, row: int) -> tuple[Call, int | None]:
    request = event.request
    if request is None:
        raise TraceError(f"{rows.locate(row)}: request must be there in a request_end, was missing")
    end = nanoseconds(event.event_time_unix_ms, _MS, rows, row, "event_time_unix_ms")
    took = nanoseconds(request.total_time_ms or 0, _MS, rows, row, "total_time_ms")
    start = end - took
    if request.request_received_ms is not None:
        start = nanoseconds(request.request_received_ms, _MS, rows, row, "request_received_ms")
        end = start + took if request.total_time_ms is not None else max(start, end)
    replay = request.replay
    call = Call(
        row=row,
        start=start,
        end=end,
        prompt=request.input_tokens if replay is None else replay.input_length,
        output=request.output_tokens or 0,
        agent=None if event.agent_context is None else event.agent_context.session_id,
        id=request.request_id,
        prefix=None if replay is None else replay.input_sequence_hashes,
        kept=_measurements(request),
    )
    if call.prompt is None:
        raise TraceError(f"{rows.locate(row)}: request must have input_tokens or replay, had neither")
    return call, None if replay is None else replay.trace_block_size


def _measurements(request: _Request) -> dict[str, Any]:
    worker = request.worker or _Worker()
    kept: dict[str, Any] = {
        name: None if (value := getattr(request, ours)) is None else value / _MS
        for name, ours in _MEASURED.items()
    }
    kept["measured_cached_tokens"] = request.cached_tokens
    kept["measured_queue_depth"] = request.queue_depth
    kept["measured_model"] = request.model
    kept["worker"] = _worker(worker.decode_worker_id, worker.decode_dp_rank)
    kept["prefill_worker"] = _worker(worker.prefill_worker_id, worker.prefill_dp_rank)
    return kept


def _worker(number: int | None, rank: int | None) -> str | None:
    """Return ``7`` or, with a data-parallel rank, ``7:1``."""
    if number is None:
        return None
    return f"{number}" if rank is None else f"{number}:{rank}"


def _ran(event: _Event, tool: _Tool, rows: Rows, row: int) -> tuple[int, int]:
    """Return when a tool ran."""
    ended = event.event_time_unix_ms if tool.ended_at_unix_ms is None else tool.ended_at_unix_ms
    end = nanoseconds(ended, _MS, rows, row, "ended_at_unix_ms")
    if tool.started_at_unix_ms is not None:
        return nanoseconds(tool.started_at_unix_ms, _MS, rows, row, "started_at_unix_ms"), end
    return end - nanoseconds(tool.duration_ms or 0, _MS, rows, row, "duration_ms"), end


def _add_tools(calls: list[Call], tools: dict[str, list[tuple[int, int]]]) -> None:
    """Keep with each request how long tools of its session ran since the request before had ended."""
    for ran in tools.values():
        ran.sort(key=lambda pair: pair[1])
    before: dict[str, Call] = {}
    used: dict[str, int] = defaultdict(int)
    for call in sorted(calls, key=lambda call: call.start):
        if call.agent is None or call.agent not in tools:
            continue
        ran = tools[call.agent]
        first = last = used[call.agent]
        while last < len(ran) and ran[last][1] <= call.start + _SLACK_NS:
            last += 1
        used[call.agent] = last
        if call.agent in before:
            since = before[call.agent].end
            call.kept["tool_time"] = covered(ran[first:last], since, call.start) / SECOND
        before[call.agent] = call
