"""Mooncake's traces.

JSON Lines of timestamp (milliseconds), input_length, output_length and
hash_ids: one id for each block of 512 prompt tokens, equal ids for equal
prefixes. Time is the file's own.
Source: github.com/kvcache-ai/Mooncake, FAST25-release (Qin et al., FAST 2025).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import polars as pl

from paceline.trace.blocks import BlockLists
from paceline.trace.columns import milliseconds, numbers
from paceline.trace.detection import Recognised
from paceline.trace.jsonlines import Number, read_json_lines
from paceline.trace.parsed import Parsed

__all__ = ["read_mooncake"]

# "each representing a 512-token block", Mooncake's FAST25-release README.
_BLOCK_TOKENS: Final = 512


class _Row(msgspec.Struct):
    timestamp: Number
    input_length: Number
    output_length: Number
    hash_ids: list[int] | None = None


def read_mooncake(found: Recognised, name: str) -> Parsed:
    """Read a Mooncake trace."""
    parts, rows = read_json_lines(found.text, name, _Row, found.limits)
    stamps: list[Any] = []
    prompt: list[Any] = []
    output: list[Any] = []
    blocks = BlockLists("hash_ids", rows)
    bare = True
    for part in parts:
        stamps.extend(row.timestamp for row in part)
        prompt.extend(row.input_length for row in part)
        output.extend(row.output_length for row in part)
        bare = bare and all(row.hash_ids is None for row in part)
        blocks.add([row.hash_ids for row in part])
    columns = [
        milliseconds("arrival", stamps),
        numbers("prompt_tokens", prompt, pl.Int64()),
        numbers("output_tokens", output, pl.Int64()),
    ]
    if bare:
        return Parsed(frame=pl.DataFrame(columns), rows=rows, detail="without prefixes")
    columns.append(blocks.column())
    return Parsed(frame=pl.DataFrame(columns), rows=rows, prefix_block_tokens=_BLOCK_TOKENS)
