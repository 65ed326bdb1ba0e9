"""The rows of Mooncake's JSON Lines and of the formats that Dynamo and aiperf made of it.

Sources: github.com/kvcache-ai/Mooncake, FAST25-release; github.com/ai-dynamo/dynamo,
lib/data-gen/src/mooncake.rs and lib/mocker/src/loadgen/trace.rs; github.com/ai-dynamo/aisimulate, its page on
traffic (aliases, and what may be left out); github.com/ai-dynamo/aiperf 0.13, dataset/loader/models.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import polars as pl

from paceline.errors import TraceError
from paceline.trace.blocks import BlockLists
from paceline.trace.choices import Unit
from paceline.trace.columns import numbers
from paceline.trace.detection import Recognised
from paceline.trace.jsonlines import Number, read_json_lines
from paceline.trace.rows import Rows
from paceline.trace.stamping import moments

__all__ = ["MooncakeRows", "collect"]

_ALIASES: Final = {"input_length": "input_tokens", "output_length": "output_tokens"}


class _Row(msgspec.Struct):
    output_length: Number
    input_length: Number | None = None
    timestamp: Number | str | None = None
    created_time: Number | str | None = None
    hash_ids: list[int] | None = None
    session_id: str | int | None = None
    delay: Number | None = None
    delay_ms: Number | None = None
    priority: int | None = None
    request_id: str | int | None = None
    wait_for: list[str | int] | None = None
    tool_wait_ms: Number | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MooncakeRows:
    """The fields of a file in its order.

    Attributes
    ----------
    rows
        Names a row by its line.
    at
        Seconds; null: the row has no stamp.
    prompt, output
        Lengths; a prompt that is not given is as long as its ids.
    blocks
        The ids of each row, as the column ``prefix``; None: no row has any.
    block_tokens
        Prompt tokens of one id.
    session, request
        Names; None: none.
    delay
        Seconds after an answer, in Dynamo's `delay`; None: not given.
    tool_wait
        Seconds that a tool took; None: not given.
    waits
        Names of the requests that a row waits for; None: not given.
    priority
        As in the file, where larger is more urgent; None: no row has any.
    """

    rows: Rows
    at: pl.Series
    prompt: list[Any]
    output: list[Any]
    blocks: pl.Series | None
    block_tokens: int
    session: list[str | None]
    request: list[str | None]
    delay: list[float | None]
    tool_wait: list[float | None]
    waits: list[list[str] | None]
    priority: list[int | None] | None

    @property
    def stamped(self) -> bool:
        """Whether every row has a stamp."""
        return not self.at.null_count()

    @property
    def is_graph(self) -> bool:
        """Whether rows name the requests that they wait for."""
        return any(names is not None for names in self.waits) or any(
            wait is not None for wait in self.tool_wait
        )

    def columns(self) -> list[pl.Series]:
        """Return the columns of the schema that do not depend on when requests arrive."""
        columns = [
            numbers("prompt_tokens", self.prompt, pl.Int64()),
            numbers("output_tokens", self.output, pl.Int64()),
        ]
        if self.priority is not None:
            # Dynamo: the higher, the more urgent (docs.nvidia.com/dynamo, agent hints); here the lower.
            values = [0 if value is None else -value for value in self.priority]
            columns.append(numbers("priority", values, pl.Int64()))
        if any(name is not None for name in self.session):
            columns.append(pl.Series("session", self.session, dtype=pl.String))
        if self.blocks is not None:
            columns.append(self.blocks)
        return columns


def collect(found: Recognised, name: str, *, unit: Unit = "ms", block_tokens: int = 512) -> MooncakeRows:
    """Read all rows of a file; `unit` and `block_tokens` are the format's own."""
    per_second = found.choices.per_second(unit)
    size = found.choices.block_tokens or block_tokens
    parts, rows = read_json_lines(found.text, name, _row_type(found.columns), found.limits)
    lines: list[_Row] = []
    blocks = BlockLists("hash_ids", rows)
    for part in parts:
        blocks.add([row.hash_ids for row in part])
        for row in part:
            if row.input_length is None and row.hash_ids:
                row.input_length = len(row.hash_ids) * size
            row.hash_ids = None
        lines.extend(part)
    ids = blocks.column()
    stamps = [row.created_time if row.timestamp is None else row.timestamp for row in lines]
    delays = [(per_second, row.delay) if row.delay is not None else (1000, row.delay_ms) for row in lines]
    priority = [row.priority for row in lines]
    for at, row in enumerate(lines):
        if row.input_length is None:
            raise TraceError(
                f"{rows.locate(at)}: input_length is missing; a row that has its text instead has no length "
                "here: count its tokens with the model's tokenizer"
            )
    return MooncakeRows(
        rows=rows,
        at=moments("arrival", stamps, per_second),
        prompt=[row.input_length for row in lines],
        output=[row.output_length for row in lines],
        blocks=ids if ids.list.len().sum() else None,
        block_tokens=size,
        session=[_name(row.session_id) for row in lines],
        request=[_name(row.request_id) for row in lines],
        delay=[_wait("delay", value, scale, rows, at) for at, (scale, value) in enumerate(delays)],
        tool_wait=[_wait("tool_wait_ms", row.tool_wait_ms, 1000, rows, at) for at, row in enumerate(lines)],
        waits=[None if row.wait_for is None else [str(one) for one in row.wait_for] for row in lines],
        priority=None if all(value is None for value in priority) else priority,
    )


def _row_type(columns: tuple[str, ...]) -> type[_Row]:
    """Return the type of a line by the names of the lengths in the first one."""
    rename = {ours: other for ours, other in _ALIASES.items() if other in columns and ours not in columns}
    if not rename:
        return _Row
    fields = [
        (field.name, field.type) if field.required else (field.name, field.type, field.default)
        for field in msgspec.structs.fields(_Row)
    ]
    return msgspec.defstruct("_Row", fields, rename=rename)  # type: ignore[return-value]


def _name(value: str | int | None) -> str | None:
    return None if value is None else str(value)


def _wait(field: str, value: Number | None, per_second: int, rows: Rows, at: int) -> float | None:
    """Return a duration in seconds."""
    if value is None:
        return None
    if value < 0:
        raise TraceError(f"{rows.locate(at)}: {field} must be 0 or more, was {value}")
    try:
        return value / per_second
    except OverflowError:
        return math.inf
