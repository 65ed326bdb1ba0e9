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

from paceline.trace.blocks import block_lists
from paceline.trace.columns import numbers
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
    parts, rows = read_json_lines(found.text, name, _Row)
    stamps: list[Any] = []
    prompt: list[Any] = []
    output: list[Any] = []
    blocks: list[list[int] | None] = []
    for part in parts:
        stamps.extend(row.timestamp for row in part)
        prompt.extend(row.input_length for row in part)
        output.extend(row.output_length for row in part)
        blocks.extend(row.hash_ids for row in part)
    columns = [
        numbers("arrival", stamps, pl.Float64()) / 1000,
        numbers("prompt_tokens", prompt, pl.Int64()),
        numbers("output_tokens", output, pl.Int64()),
    ]
    if all(ids is None for ids in blocks):
        return Parsed(frame=pl.DataFrame(columns), rows=rows, detail="without prefixes")
    columns.append(block_lists("hash_ids", blocks, rows))
    return Parsed(frame=pl.DataFrame(columns), rows=rows, prefix_block_tokens=_BLOCK_TOKENS)
