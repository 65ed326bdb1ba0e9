"""Paceline's own schema, as CSV, JSON Lines or Parquet; see `traces/schema.md`.

Columns that are not of the schema are kept: in CSV as numbers if all values are
numbers, in JSON Lines as they are; there the first line must have them all.
``prefix_block_tokens`` is a column here, the same in every row: plain files have
no other place for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import polars as pl

from paceline._parquet import parse
from paceline.errors import TraceError
from paceline.trace.blocks import BlockLists
from paceline.trace.columns import are_stamps, blocks, numbers, scores, seconds, stamps, tokens, whole
from paceline.trace.delimited import read_delimited
from paceline.trace.detection import Recognised
from paceline.trace.frames import renamed
from paceline.trace.further import inferred
from paceline.trace.jsonlines import Number, read_json_lines
from paceline.trace.parsed import Parsed
from paceline.trace.rows import Rows, frame_rows
from paceline.trace.schema import COLUMNS
from paceline.trace.stamping import moments

__all__ = ["read_own"]

_BLOCK_TOKENS = "prefix_block_tokens"

_WAITING = ("think_time", "parents", "delay", "not_before")

_Counted = Number | msgspec.UnsetType | None


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    arrival: Number
    prompt_tokens: Number
    output_tokens: Number
    reasoning_tokens: _Counted = msgspec.UNSET
    priority: _Counted = msgspec.UNSET
    score: _Counted = msgspec.UNSET
    tenant: str | msgspec.UnsetType | None = msgspec.UNSET
    model: str | msgspec.UnsetType | None = msgspec.UNSET
    adapter: str | msgspec.UnsetType | None = msgspec.UNSET
    session: str | msgspec.UnsetType | None = msgspec.UNSET
    think_time: _Counted = msgspec.UNSET
    request_id: str | msgspec.UnsetType | None = msgspec.UNSET
    parents: list[str] | msgspec.UnsetType | None = msgspec.UNSET
    delay: _Counted = msgspec.UNSET
    not_before: _Counted = msgspec.UNSET
    cancel_after: _Counted = msgspec.UNSET
    cancel_after_tokens: _Counted = msgspec.UNSET
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
    frame = _timed(frame, found, name)
    wanted = found.choices.block_tokens
    if _BLOCK_TOKENS not in frame.columns:
        size = wanted if "prefix" in frame.columns else None
        if wanted is not None and size is None:
            raise TraceError(f"{name}: block_tokens={wanted} has no meaning here: there is no column prefix")
        return Parsed(frame=frame, rows=rows, prefix_block_tokens=size, detail=found.container)
    if wanted is not None:
        raise TraceError(f"{name}: block_tokens={wanted} has no meaning here: {_BLOCK_TOKENS} is a column")
    sizes = frame.get_column(_BLOCK_TOKENS)
    if not sizes.dtype.is_integer() or sizes.null_count() or sizes.n_unique() > 1:
        raise TraceError(f"{name}: {_BLOCK_TOKENS} must be the same whole number in every row")
    frame = frame.drop(_BLOCK_TOKENS)
    size = int(sizes[0]) if frame.height else None
    return Parsed(frame=frame, rows=rows, prefix_block_tokens=size, detail=found.container)


def _timed(frame: pl.DataFrame, found: Recognised, name: str) -> pl.DataFrame:
    """Return the frame with arrivals in seconds, and without what its caller wants no request to wait for."""
    choices = found.choices
    if choices.unit is not None and "arrival" in frame.columns:
        arrival = frame.get_column("arrival")
        if not arrival.dtype.is_numeric():
            raise _of_dates(found, name)
        frame = frame.with_columns(moments("arrival", arrival.to_list(), choices.per_second("s")))
    waiting = [column for column in _WAITING if column in frame.columns]
    if choices.arrivals == "dependent" and not waiting:
        raise TraceError(f"{name}: arrivals='dependent' needs one of the columns think_time and parents")
    return frame.drop(waiting) if choices.arrivals == "recorded" else frame


def _of_dates(found: Recognised, name: str) -> TraceError:
    return TraceError(f"{name}: unit={found.choices.unit!r} has no meaning here: arrivals are dates")


def _from_csv(found: Recognised, name: str) -> tuple[pl.DataFrame, Rows]:
    table, rows = read_delimited(found.text, name, found.columns, found.limits)
    columns = []
    for column in table.get_columns():
        if column.name == "arrival":
            if found.choices.unit is not None and are_stamps(column):
                raise _of_dates(found, name)
            columns.append(stamps(column, rows) if are_stamps(column) else seconds(column, rows))
        elif column.name in ("prompt_tokens", "output_tokens", "reasoning_tokens", _BLOCK_TOKENS):
            columns.append(tokens(column, rows))
        elif column.name == "priority":
            columns.append(whole(column, rows))
        elif column.name == "score":
            columns.append(scores(column, rows))
        elif column.name == "prefix":
            columns.append(blocks(column, rows))
        elif column.name == "parents":
            columns.append(_parted(column))
        else:
            named = column.dtype == pl.String and COLUMNS.get(column.name) == pl.String
            columns.append(column if named else inferred(column))
    return pl.DataFrame(columns), rows


def _from_json_lines(found: Recognised, name: str) -> tuple[pl.DataFrame, Rows]:
    further = [column for column in found.columns if column not in (*COLUMNS, _BLOCK_TOKENS)]
    parts, rows = read_json_lines(found.text, name, _row(further, found.named), found.limits)
    names = [*(column for column in COLUMNS if column != "prefix"), _BLOCK_TOKENS]
    fields = dict(zip(names, names, strict=True)) | {
        column: f"further_{at}" for at, column in enumerate(further)
    }
    names += further
    values: dict[str, list[Any]] = {column: [] for column in names}
    prefix, bare = BlockLists("prefix", rows), True
    for part in parts:
        for column in names:
            values[column].extend(getattr(row, fields[column]) for row in part)
        ids = [None if row.prefix is msgspec.UNSET else row.prefix for row in part]
        bare = bare and all(row.prefix is msgspec.UNSET for row in part)
        prefix.add(ids)
    columns = [] if bare else [prefix.column()]
    for column, cells in values.items():
        if all(cell is msgspec.UNSET for cell in cells):
            continue
        cells = [None if cell is msgspec.UNSET else cell for cell in cells]
        columns.append(_column(column, cells, rows))
    return pl.DataFrame(columns), rows


def _row(further: list[str], named: Mapping[str, str]) -> type[_Row]:
    """Return the type of a line with further fields, and with the file's names of those that have others."""
    if not further and not named:
        return _Row
    rename = dict(named) | {f"further_{at}": column for at, column in enumerate(further)}
    own = [
        (field.name, field.type) if field.required else (field.name, field.type, field.default)
        for field in msgspec.structs.fields(_Row)
    ]
    more = [(f"further_{at}", Any, msgspec.UNSET) for at in range(len(further))]
    return msgspec.defstruct("_Row", [*own, *more], rename=rename, forbid_unknown_fields=True)  # type: ignore[return-value]


def _column(name: str, cells: list[Any], rows: Rows) -> pl.Series:
    if name not in (*COLUMNS, _BLOCK_TOKENS):
        try:
            return pl.Series(name, cells)
        except (pl.exceptions.PolarsError, TypeError, OverflowError) as error:
            raise TraceError(f"{rows.name}: column {name!r} must have values of one kind: {error}") from error
    dtype = COLUMNS.get(name, pl.Int64())
    if not dtype.is_numeric():
        return pl.Series(name, cells, dtype=dtype)
    return numbers(name, cells, pl.Float64() if dtype.is_float() else pl.Int64())


def _parted(text: pl.Series) -> pl.Series:
    """Return ids that are parted by single spaces as lists; an empty field is no id."""
    parts = text.fill_null("").str.split(" ")
    return pl.select(parts.list.eval(pl.element().filter(pl.element() != ""))).to_series().alias(text.name)


def _from_parquet(found: Recognised, name: str) -> tuple[pl.DataFrame, Rows]:
    frame = parse(found.text, name, error=TraceError)
    return renamed(frame, found.named, name), frame_rows(name)
