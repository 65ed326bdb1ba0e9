"""Paceline's own schema, as CSV, JSON Lines or Parquet; see `traces/schema.md`.

Columns are those of the schema and no others, so that a misspelt one is not
passed over. ``prefix_block_tokens`` is a column here, the same in every row:
plain files have no other place for it.
"""

from __future__ import annotations

from typing import Any

import msgspec
import polars as pl

from paceline._parquet import check_foreign, parse
from paceline.errors import TraceError
from paceline.trace.blocks import BlockLists
from paceline.trace.columns import blocks, numbers, scores, seconds, tokens, whole
from paceline.trace.delimited import read_delimited
from paceline.trace.detection import Recognised
from paceline.trace.jsonlines import Number, read_json_lines
from paceline.trace.parsed import Parsed
from paceline.trace.rows import Rows, frame_rows
from paceline.trace.schema import COLUMNS
from paceline.trace.seal import check_seal

__all__ = ["read_own"]

_BLOCK_TOKENS = "prefix_block_tokens"

_Counted = Number | msgspec.UnsetType | None


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    arrival: Number
    prompt_tokens: Number
    output_tokens: Number
    reasoning_tokens: _Counted = msgspec.UNSET
    priority: _Counted = msgspec.UNSET
    score: _Counted = msgspec.UNSET
    tenant: str | msgspec.UnsetType | None = msgspec.UNSET
    session: str | msgspec.UnsetType | None = msgspec.UNSET
    prefix: list[int] | msgspec.UnsetType | None = msgspec.UNSET
    prefix_block_tokens: _Counted = msgspec.UNSET


def read_own(found: Recognised, name: str) -> Parsed:
    """Read a trace in Paceline's schema."""
    if found.container == "csv":
        frame, rows = _from_csv(found, name)
    elif found.container == "jsonl":
        frame, rows = _from_json_lines(found, name)
    else:
        frame, rows = _from_parquet(found, name)
    if _BLOCK_TOKENS not in frame.columns:
        return Parsed(frame=frame, rows=rows, detail=found.container)
    sizes = frame.get_column(_BLOCK_TOKENS)
    if not sizes.dtype.is_integer() or sizes.null_count() or sizes.n_unique() > 1:
        raise TraceError(f"{name}: {_BLOCK_TOKENS} must be the same whole number in every row")
    frame = frame.drop(_BLOCK_TOKENS)
    size = int(sizes[0]) if frame.height else None
    return Parsed(frame=frame, rows=rows, prefix_block_tokens=size, detail=found.container)


def _from_csv(found: Recognised, name: str) -> tuple[pl.DataFrame, Rows]:
    table, rows = read_delimited(found.text, name, found.columns, found.limits)
    columns = []
    for column in table.get_columns():
        if column.name == "arrival":
            columns.append(seconds(column, rows))
        elif column.name in ("prompt_tokens", "output_tokens", "reasoning_tokens", _BLOCK_TOKENS):
            columns.append(tokens(column, rows))
        elif column.name == "priority":
            columns.append(whole(column, rows))
        elif column.name == "score":
            columns.append(scores(column, rows))
        elif column.name == "prefix":
            columns.append(blocks(column, rows))
        else:
            columns.append(column)
    return pl.DataFrame(columns), rows


def _from_json_lines(found: Recognised, name: str) -> tuple[pl.DataFrame, Rows]:
    parts, rows = read_json_lines(found.text, name, _Row, found.limits)
    names = [*(column for column in COLUMNS if column != "prefix"), _BLOCK_TOKENS]
    values: dict[str, list[Any]] = {column: [] for column in names}
    prefix, bare = BlockLists("prefix", rows), True
    for part in parts:
        for column in names:
            values[column].extend(getattr(row, column) for row in part)
        ids = [None if row.prefix is msgspec.UNSET else row.prefix for row in part]
        bare = bare and all(row.prefix is msgspec.UNSET for row in part)
        prefix.add(ids)
    columns = [] if bare else [prefix.column()]
    for column, cells in values.items():
        if all(cell is msgspec.UNSET for cell in cells):
            continue
        cells = [None if cell is msgspec.UNSET else cell for cell in cells]
        columns.append(_column(column, cells))
    return pl.DataFrame(columns), rows


def _column(name: str, cells: list[Any]) -> pl.Series:
    if name in ("tenant", "session"):
        return pl.Series(name, cells, dtype=pl.String)
    return numbers(name, cells, pl.Float64() if name in ("arrival", "score") else pl.Int64())


def _from_parquet(found: Recognised, name: str) -> tuple[pl.DataFrame, Rows]:
    whole = check_seal(found.text, name)
    if not whole:
        check_foreign(found.text, name, error=TraceError, limits=found.limits)
    return parse(found.text, name, error=TraceError), frame_rows(name)
