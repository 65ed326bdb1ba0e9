"""Mooncake's traces, and the rows with sessions and delays that Dynamo and aiperf write in their format.

JSON Lines of timestamp (milliseconds), input_length, output_length and
hash_ids: one id for each block of 512 prompt tokens, equal ids for equal
prefixes. Time is the file's own; stamps since 1970 count from the earliest.

With session_id, rows of a session are its turns in the file's order. If arrivals
are dependent, a later turn arrives `delay` after the answer to the turn before;
without `delay`, the difference of the two stamps after that answer (Dynamo,
lib/mocker/src/loadgen/trace.rs); with neither, at once. Rows that name what they
wait for are read by `paceline.trace.formats.agentic_mooncake`.

vLLM's ``timed_trace`` has the same fields in seconds, and ids of 16 tokens. Its
prompts end where the ids do, and so they do here.
Source: github.com/kvcache-ai/Mooncake, FAST25-release (Qin et al., FAST 2025).
"""

from __future__ import annotations

import warnings

import polars as pl

from paceline.errors import TraceError, TraceWarning
from paceline.trace.detection import Recognised
from paceline.trace.formats.agentic_mooncake import graph
from paceline.trace.formats.mooncake_rows import MooncakeRows, collect
from paceline.trace.formats.mooncake_turns import Turns, follow
from paceline.trace.parsed import Parsed

__all__ = ["read_mooncake", "read_timed_trace"]


def read_mooncake(found: Recognised, name: str) -> Parsed:
    """Read a Mooncake trace."""
    table = collect(found, name)
    if table.is_graph:
        return graph(table, found, name)
    waits = found.choices.waits(name, stamped=table.stamped)
    if waits and found.choices.arrivals and not any(table.session):
        raise TraceError(f"{name}: arrivals='dependent' needs sessions, and no row has a session_id")
    turns = follow(table)
    if table.at.null_count() == len(table.at):
        warnings.warn(
            f"{name}: has no timestamps: every request that follows no answer arrives at 0; replay it with "
            "clients=Concurrency(…)",
            TraceWarning,
            stacklevel=4,
        )
    return parsed(table, turns, waits=waits)


def read_timed_trace(found: Recognised, name: str) -> Parsed:
    """Read the input of ``vllm bench serve --dataset-name timed_trace``."""
    table = collect(found, name, unit="s", block_tokens=16)
    if not table.stamped:
        row = table.at.is_null().arg_max()
        assert row is not None
        raise TraceError(f"{table.rows.locate(row)}: timestamp is missing")
    held = [0] * len(table.at) if table.blocks is None else table.blocks.list.len().to_list()
    cut = 0
    for row, ids in enumerate(held):
        if ids == 0:
            raise TraceError(
                f"{table.rows.locate(row)}: hash_ids is missing: vllm bench sends an empty prompt "
                "for this row; read it as format='mooncake'"
            )
        if table.prompt[row] > ids * table.block_tokens:
            table.prompt[row] = ids * table.block_tokens
            cut += 1
    detail = f"{cut} prompts end with their ids, before input_length" if cut else ""
    frame = pl.DataFrame([table.at, *table.columns()])
    return Parsed(frame=frame, rows=table.rows, prefix_block_tokens=table.block_tokens, detail=detail)


def parsed(table: MooncakeRows, turns: Turns, *, waits: bool) -> Parsed:
    """Return the rows of a file with sessions; `waits`: later turns follow answers."""
    columns = [turns.arrival, *table.columns()]
    detail = []
    if any(table.session):
        detail.append("with sessions")
        if waits:
            columns.append(turns.think_time)
    if table.blocks is None:
        detail.append("without prefixes")
        return Parsed(frame=pl.DataFrame(columns), rows=table.rows, detail=", ".join(detail))
    return Parsed(
        frame=pl.DataFrame(columns),
        rows=table.rows,
        prefix_block_tokens=table.block_tokens,
        detail=", ".join(detail),
    )
