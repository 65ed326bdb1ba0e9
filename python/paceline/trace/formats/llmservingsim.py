"""LLMServingSim's workloads, with sessions of agents or flat.

JSON Lines. A session has ``session_id``, ``arrival_time_ns`` and ``sub_requests``, each with
``input_toks``, ``output_toks`` and ``tool_duration_ns``: how long after its answer the next is sent. That
becomes the next request's ``think_time``, so that arrivals can only be dependent where a session has
several. A flat request has ``input_toks``, ``output_toks`` and ``arrival_time_ns``. Both may be in one
file. If requests have ``input_tok_ids``, blocks of 16 of them, or ``block_tokens``, become ``prefix``:
equal ids where all tokens up to the end of the block are equal.

Not in the format: priorities, forks and joins, measurements. Ids of output tokens are passed over.
Source: github.com/casys-kaist/LLMServingSim, workloads/README.md.
"""

from __future__ import annotations

from typing import Final

import msgspec

from paceline.errors import TraceError
from paceline.trace.calls import SECOND, Call, calls_parsed, nanoseconds
from paceline.trace.detection import Recognised
from paceline.trace.jsonlines import Number, read_json_lines
from paceline.trace.parsed import Parsed
from paceline.trace.rows import Rows

__all__ = ["read_llmservingsim"]

# vLLM's default block, whose prefix cache the ids are for.
_BLOCK_TOKENS: Final = 16


class _SubRequest(msgspec.Struct):
    input_toks: Number
    output_toks: Number
    tool_duration_ns: Number = 0
    input_tok_ids: list[int] | None = None


class _Line(msgspec.Struct):
    arrival_time_ns: Number
    session_id: str | int | None = None
    sub_requests: list[_SubRequest] | None = None
    input_toks: Number | None = None
    output_toks: Number | None = None
    input_tok_ids: list[int] | None = None


def read_llmservingsim(found: Recognised, name: str) -> Parsed:
    """Read a workload of LLMServingSim."""
    size = _BLOCK_TOKENS if found.choices.block_tokens is None else found.choices.block_tokens
    parts, rows = read_json_lines(found.text, name, _Line, found.limits)
    blocks = _Blocks(size)
    calls: list[Call] = []
    row = 0
    for part in parts:
        for line in part:
            _add(calls, line, blocks, rows, row)
            row += 1
    waits = found.choices.waits(name, stamped=not any(call.waits for call in calls))
    prefix = ("input_tok_ids", size) if blocks.known else None
    return calls_parsed(calls, rows, found.limits, waits=waits, prefix=prefix)


def _add(calls: list[Call], line: _Line, blocks: _Blocks, rows: Rows, row: int) -> None:
    session = None if line.session_id is None else str(line.session_id)
    moment = nanoseconds(line.arrival_time_ns, SECOND, rows, row, "arrival_time_ns")
    if line.sub_requests is None:
        if line.input_toks is None or line.output_toks is None:
            raise TraceError(f"{rows.locate(row)}: must have sub_requests, or input_toks and output_toks")
        requests = [_SubRequest(line.input_toks, line.output_toks, 0, line.input_tok_ids)]
    else:
        requests = line.sub_requests
        session = session or f"session {row}"
    before: int | None = None
    for at, request in enumerate(requests):
        calls.append(
            Call(
                row=row,
                place="" if line.sub_requests is None else f", sub_requests[{at}]",
                start=moment,
                end=moment,
                prompt=request.input_toks,
                output=request.output_toks,
                agent=session,
                prefix=blocks.ids(request.input_tok_ids),
                waits=[] if before is None else [before],
            )
        )
        before = len(calls) - 1
        tool = nanoseconds(request.tool_duration_ns, SECOND, rows, row, "tool_duration_ns")
        if tool < 0:
            raise TraceError(f"{rows.locate(row)}: tool_duration_ns must not be negative, was {tool}")
        moment += tool


class _Blocks:
    """Gives ids to blocks of tokens: equal ones for equal tokens after equal blocks."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._known: dict[tuple[int, tuple[int, ...]], int] = {}

    @property
    def known(self) -> bool:
        """Whether any request had tokens for a block."""
        return bool(self._known)

    def ids(self, tokens: list[int] | None) -> list[int]:
        """Return the ids of the whole blocks of a prompt."""
        ids: list[int] = []
        for start in range(0, len(tokens or []) - self._size + 1, self._size):
            assert tokens is not None
            key = (ids[-1] if ids else -1, tuple(tokens[start : start + self._size]))
            ids.append(self._known.setdefault(key, len(self._known)))
        return ids
