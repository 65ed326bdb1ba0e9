"""Alibaba's traces of Bailian (Qwen), by chats.

JSON Lines of chat_id, parent_chat_id (-1: a root), timestamp (seconds from the start), input_length (history
included), output_length, type, turn, and hash_ids of 16 tokens each. Type and turn are kept.

The requests of a chat have its root's chat_id as their session. If arrivals are dependent, a
follow-up arrives as long after the answer to its parent as the two stamps differ: the file has
no latencies, so that the think time includes what serving took, and is at most too long by
that. Where a chat forks, its follow-ups wait by ``parents`` instead. A row is a root, too, if
its parent is not in the file or has a later stamp; the source's detail counts these.
Sources: github.com/alibaba-edu/qwen-bailian-usagetraces-anon; github.com/ai-dynamo/aiperf 0.13,
its loader.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl

from paceline.errors import TraceError
from paceline.trace.blocks import BlockLists
from paceline.trace.columns import numbers
from paceline.trace.detection import Recognised
from paceline.trace.jsonlines import Number, read_json_lines
from paceline.trace.parsed import Parsed
from paceline.trace.rows import Rows
from paceline.trace.stamping import moments

__all__ = ["read_bailian"]

# "16 tokens per block", the repository's README.
_BLOCK_TOKENS: Final = 16


class _Row(msgspec.Struct):
    chat_id: int | str
    parent_chat_id: int | str | None
    timestamp: Number | str
    input_length: Number
    output_length: Number
    type: str | None = None
    turn: int | None = None
    hash_ids: list[int] | None = None


@dataclass(frozen=True, slots=True)
class _Chats:
    """The parent, the root and the depth of each row, by position; -1: no parent."""

    parent: list[int]
    root: list[int]
    depth: list[int]
    absent: int
    backward: int


def read_bailian(found: Recognised, name: str) -> Parsed:
    """Read a trace of chats."""
    parts, rows = read_json_lines(found.text, name, _Row, found.limits)
    blocks = BlockLists("hash_ids", rows)
    lines: list[_Row] = []
    for part in parts:
        blocks.add([row.hash_ids for row in part])
        for row in part:
            row.hash_ids = None
        lines.extend(part)
    arrival = moments("arrival", [row.timestamp for row in lines], found.choices.per_second("s"))
    chats = _chats(lines, arrival.to_list(), rows)
    names = np.asarray([str(row.chat_id) for row in lines], dtype=object)
    columns: list[pl.Series] = [
        arrival,
        numbers("prompt_tokens", [row.input_length for row in lines], pl.Int64()),
        numbers("output_tokens", [row.output_length for row in lines], pl.Int64()),
        pl.Series("session", names[chats.root].tolist(), dtype=pl.String),
        pl.Series("type", [row.type for row in lines], dtype=pl.String),
        numbers("turn", [row.turn for row in lines], pl.Int64()),
    ]
    ids = blocks.column()
    size = None
    if ids.list.len().sum():
        columns.append(ids)
        size = found.choices.block_tokens or _BLOCK_TOKENS
    if found.choices.waits(name, stamped=True):
        columns += _waits(chats, arrival, names.tolist())
    frame = pl.DataFrame(columns)
    # Of equal stamps, a parent's row comes first.
    order = frame.with_columns(depth=pl.Series(chats.depth)).select(
        pl.arg_sort_by("arrival", "depth", maintain_order=True)
    )
    placed = order.to_series().cast(pl.UInt32)
    return Parsed(
        frame=frame[placed],
        rows=rows.kept(placed.to_numpy()),
        prefix_block_tokens=size,
        detail=_detail(chats),
    )


def _chats(lines: list[_Row], at: list[float], rows: Rows) -> _Chats:
    known: dict[str, int] = {}
    for row, line in enumerate(lines):
        if known.setdefault(str(line.chat_id), row) != row:
            raise TraceError(
                f"{rows.locate(row)}: chat_id must be unique, was {line.chat_id!r} as in "
                f"{rows.locate(known[str(line.chat_id)])}"
            )
    parent = [-1] * len(lines)
    absent = backward = 0
    for row, line in enumerate(lines):
        if line.parent_chat_id in (-1, "-1", None):
            continue
        before = known.get(str(line.parent_chat_id))
        if before is None:
            absent += 1
        elif at[before] > at[row]:
            backward += 1
        else:
            parent[row] = before
    root, depth = _rooted(parent, lines, rows)
    return _Chats(parent, root, depth, absent, backward)


def _rooted(parent: list[int], lines: list[_Row], rows: Rows) -> tuple[list[int], list[int]]:
    root, depth = [-1] * len(parent), [0] * len(parent)
    for start in range(len(parent)):
        path, row = [], start
        while root[row] < 0 and parent[row] >= 0:
            path.append(row)
            row = parent[row]
            if len(path) > len(parent):
                raise TraceError(
                    f"{rows.locate(start)}: parent_chat_id must not lead back to the chat itself, was "
                    f"{lines[start].parent_chat_id!r}"
                )
        if root[row] < 0:
            root[row] = row
        for after in reversed(path):
            root[after], depth[after] = root[row], depth[parent[after]] + 1
    return root, depth


def _waits(chats: _Chats, arrival: pl.Series, names: list[str]) -> list[pl.Series]:
    """Return the columns that make follow-ups wait."""
    children = Counter(before for before in chats.parent if before >= 0)
    forked = {chats.root[row] for row, count in children.items() if count > 1}
    at: list[Any] = arrival.to_list()
    gap = [at[row] - at[before] if before >= 0 else None for row, before in enumerate(chats.parent)]
    forks = [root in forked for root in chats.root]
    columns = [
        pl.Series("think_time", [None if f else g for f, g in zip(forks, gap, strict=True)], dtype=pl.Float64)
    ]
    if forked:
        parents = [[names[b]] if f and b >= 0 else [] for f, b in zip(forks, chats.parent, strict=True)]
        columns += [
            pl.Series("request_id", names, dtype=pl.String),
            pl.Series("parents", parents, dtype=pl.List(pl.String)),
            pl.Series("delay", [g if f else None for f, g in zip(forks, gap, strict=True)], dtype=pl.Float64),
        ]
    return columns


def _detail(chats: _Chats) -> str:
    counts = [
        (chats.absent, "rows are roots as their parent is not in the file"),
        (chats.backward, "rows are roots as their parent has a later stamp"),
    ]
    return ", ".join(f"{count} {what}" for count, what in counts if count)
