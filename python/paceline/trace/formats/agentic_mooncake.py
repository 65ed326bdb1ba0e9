"""Mooncake's rows as a graph of requests, in Dynamo's ``agentic_mooncake``.

Each row has a request_id and may have `wait_for`, the ids of the requests that must end first.
It arrives `delay` and `tool_wait_ms` after the last of them; without `wait_for`, at its
timestamp, or at 0. Branches, tool events and kinds are passed over: they do not say when a
request arrives.
Source: github.com/ai-dynamo/dynamo, lib/data-gen/src/mooncake.rs; github.com/ai-
dynamo/aisimulate, its page on traffic.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import numpy as np
import polars as pl

from paceline.errors import TraceError
from paceline.trace.detection import Recognised
from paceline.trace.formats.mooncake_rows import MooncakeRows, collect
from paceline.trace.parsed import Parsed

__all__ = ["graph", "read_agentic_mooncake"]


def read_agentic_mooncake(found: Recognised, name: str) -> Parsed:
    """Read a trace of requests that wait for others."""
    return graph(collect(found, name), found, name)


def graph(table: MooncakeRows, found: Recognised, name: str) -> Parsed:
    """Return rows with ``request_id``, ``parents`` and ``delay``, or with their stamps alone.

    Raises
    ------
    TraceError
        A row has no request_id or that of another; it waits for a request that is not in the file, or for
        itself; or it has a delay and nothing to wait for.
    """
    waits = found.choices.waits(name, stamped=table.stamped)
    known = _known(table)
    parents = [_parents(table, row, known) for row in range(len(table.at))]
    order = _order(table, parents)
    delay = [
        (table.delay[row] or 0.0) + (table.tool_wait[row] or 0.0) if before else None
        for row, before in enumerate(parents)
    ]
    at = table.at.to_list()
    arrival = [0.0] * len(at)
    for row in order:
        ready = max((arrival[before] for before in parents[row]), default=0.0) + (delay[row] or 0.0)
        arrival[row] = ready if at[row] is None else max(at[row], ready if waits else 0.0)
    columns = [
        pl.Series("arrival", arrival, dtype=pl.Float64),
        *table.columns(),
        pl.Series("request_id", table.request, dtype=pl.String),
    ]
    if waits:
        names = [[table.request[before] for before in each] for each in parents]
        columns.append(pl.Series("parents", names, dtype=pl.List(pl.String)))
        columns.append(pl.Series("delay", delay, dtype=pl.Float64))
    placed = np.asarray(order, dtype=np.uint32)
    return Parsed(
        frame=pl.DataFrame(columns)[placed],
        rows=table.rows.kept(placed),
        prefix_block_tokens=None if table.blocks is None else table.block_tokens,
        detail="agentic",
    )


def _known(table: MooncakeRows) -> dict[str, int]:
    known: dict[str, int] = {}
    for row, request in enumerate(table.request):
        if not request:
            raise TraceError(f"{table.rows.locate(row)}: request_id is missing: rows wait by it")
        if request in known:
            raise TraceError(
                f"{table.rows.locate(row)}: request_id must be unique, was {request!r} as in "
                f"{table.rows.locate(known[request])}"
            )
        known[request] = row
    return known


def _parents(table: MooncakeRows, row: int, known: dict[str, int]) -> list[int]:
    names = list(dict.fromkeys(table.waits[row] or ()))
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise TraceError(
            f"{table.rows.locate(row)}: wait_for must name requests of the file, was {unknown!r}"
        )
    wait = (table.delay[row] or 0.0) + (table.tool_wait[row] or 0.0)
    if wait and not names:
        raise TraceError(
            f"{table.rows.locate(row)}: delay and tool_wait_ms follow an answer, and wait_for is empty; "
            f"were {wait:g} s together"
        )
    return [known[name] for name in names]


def _order(table: MooncakeRows, parents: list[list[int]]) -> list[int]:
    """Return the rows so that each comes after those that it waits for: the file's order if it is one."""
    if all(before < row for row, each in enumerate(parents) for before in each):
        return list(range(len(parents)))
    try:
        return list(TopologicalSorter(dict(enumerate(parents))).static_order())
    except CycleError as error:
        row = max(error.args[1])
        raise TraceError(
            f"{table.rows.locate(row)}: wait_for must not lead back to the request itself, "
            f"was {table.request[row]!r} waiting for {', '.join(table.waits[row] or ())}"
        ) from error
