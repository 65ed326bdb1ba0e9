"""Applied Compute's traces of agents (``applied_compute_agentic`` in Dynamo).

JSON Lines, a session each: num_turns tool calls with the lengths of the answers before them, of
the tools' results and the tools' seconds, and the length of the last answer. The prompt of a
turn is the first prompt, and every answer and result since. There are no stamps: all sessions
start at 0, so replay them with a limit of sessions. No prompt says what it shares with another
session's.
Sources: appliedcompute.com/research/inference-benchmark (2026-04-22); github.com/ai-
dynamo/dynamo, lib/mocker/src/loadgen/trace.rs.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import polars as pl

from paceline.errors import TraceError
from paceline.trace.columns import numbers
from paceline.trace.detection import Recognised
from paceline.trace.jsonlines import Number, read_json_lines
from paceline.trace.parsed import Parsed
from paceline.trace.rows import Rows

__all__ = ["read_applied_compute"]


class _Row(msgspec.Struct):
    num_turns: int
    input_prompt_length: int
    assistant_response_length: list[int]
    tool_call_output_length: list[int]
    tool_call_latency: list[Number]
    final_assistant_response_length: int


def read_applied_compute(found: Recognised, name: str) -> Parsed:
    """Read sessions of agents, each of which becomes its turns."""
    found.choices.waits(name, stamped=False)
    parts, lines = read_json_lines(found.text, name, _Row, found.limits)
    names = ("arrival", "prompt_tokens", "output_tokens", "think_time")
    columns: dict[str, list[Any]] = {column: [] for column in names}
    turns: list[int] = []
    for part in parts:
        for row in part:
            _check(row, lines, len(turns))
            turns.append(row.num_turns + 1)
            _append(row, columns)
    line = np.repeat(np.arange(len(turns), dtype=np.uint32), turns)
    frame = pl.DataFrame(
        [
            pl.Series("arrival", columns["arrival"], dtype=pl.Float64),
            numbers("prompt_tokens", columns["prompt_tokens"], pl.Int64()),
            numbers("output_tokens", columns["output_tokens"], pl.Int64()),
            pl.Series("session", line).cast(pl.String),
            numbers("think_time", columns["think_time"], pl.Float64()),
        ]
    )
    return Parsed(frame=frame, rows=lines.kept(line), detail=f"{len(turns)} sessions without stamps")


def _append(row: _Row, columns: dict[str, list[Any]]) -> None:
    prompt, at, wait = row.input_prompt_length, 0.0, None
    for turn in range(row.num_turns + 1):
        last = turn == row.num_turns
        output = row.final_assistant_response_length if last else row.assistant_response_length[turn]
        columns["arrival"].append(at)
        columns["prompt_tokens"].append(prompt)
        columns["output_tokens"].append(output)
        columns["think_time"].append(wait)
        if not last:
            prompt += output + row.tool_call_output_length[turn]
            wait = float(row.tool_call_latency[turn])
            at += wait


def _check(row: _Row, lines: Rows, at: int) -> None:
    if row.num_turns < 0:
        raise TraceError(f"{lines.locate(at)}: num_turns must be 0 or more, was {row.num_turns}")
    for field in ("assistant_response_length", "tool_call_output_length", "tool_call_latency"):
        values = getattr(row, field)
        if len(values) != row.num_turns:
            raise TraceError(
                f"{lines.locate(at)}: {field} must have {row.num_turns} entries as num_turns says, "
                f"had {len(values)}"
            )
        low = next((value for value in values if not 0 <= value < 2**62), None)
        if low is not None:
            raise TraceError(f"{lines.locate(at)}: {field} must hold numbers of 0 or more, was {low}")
