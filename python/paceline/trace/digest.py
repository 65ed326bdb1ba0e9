"""A hash of a trace's content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain

import numpy as np
import polars as pl

from paceline.concurrency import Concurrency
from paceline.trace.schema import COLUMNS

__all__ = ["columns_sha256", "frame_sha256"]

_Read = Callable[[], Iterator[pl.Series]]
_Component = Callable[["hashlib._Hash", Iterator[pl.Series], _Read], "hashlib._Hash"]
"""Adds to a hash of what came before a column's parts, which can be read again, and returns the hash."""


def frame_sha256(
    frame: pl.DataFrame, prefix_block_tokens: int | None, clients: Concurrency | None = None
) -> str:
    """Hash the columns of a checked trace, and the clients that send its requests if there are any.

    SHA-256 over, for each column in the schema's order: its name, its type, its length, and its values
    as little-endian bytes. Text and lists go in as one column of lengths (-1 for null) and one of their
    joined contents. A further column goes in with a mask of its nulls; one of another type as JSON.
    Names and sources of traces are not part of it.
    """
    whole = {column.name: partial(_once, column) for column in frame.get_columns()}
    return columns_sha256(whole, frame.height, prefix_block_tokens, clients)


def _once(column: pl.Series) -> Iterator[pl.Series]:
    """Give a column as its only part."""
    yield column


def columns_sha256(
    columns: Mapping[str, _Read],
    rows: int,
    prefix_block_tokens: int | None,
    clients: Concurrency | None = None,
) -> str:
    """Hash a trace as `frame_sha256` does; each column is read in parts.

    A column of numbers is read once. A column of text or lists is read twice, because its lengths go in
    before its contents, and so is a further column of numbers, because its mask of nulls does.
    """
    digest = hashlib.sha256(f"paceline trace 1;{prefix_block_tokens}".encode())
    for name, read in columns.items():
        parts = read()
        first = next(parts)
        parts = chain([first], parts)
        digest.update(f";{name}:{first.dtype}:{rows};".encode())
        for component in _components(first.dtype, further=name not in COLUMNS):
            digest = component(digest, parts, read)
            parts = read()
    if clients is not None:
        digest.update(f";{clients!r}".encode())
    return digest.hexdigest()


def _components(dtype: pl.DataType, *, further: bool) -> tuple[_Component, ...]:
    """Return what goes in of a column of this type, one after the other."""
    if further:
        if not (dtype.is_numeric() or dtype == pl.Boolean):
            return (_add_json,)
        nothing = 0 if dtype.is_numeric() else False
        return (_values(pl.Series.is_null), _values(lambda column: column.fill_null(nothing)))
    if dtype == pl.String:
        return (_values(lambda column: column.str.len_bytes().cast(pl.Int64).fill_null(-1)), _add_text)
    if dtype == pl.List(pl.String):
        return (_add_json,)
    if isinstance(dtype, pl.List):
        lengths = _values(lambda column: column.list.len().cast(pl.Int64))
        return (lengths, _values(lambda column: column.explode(empty_as_null=False)))
    return (_add_numbers,)


def _values(of: Callable[[pl.Series], pl.Series]) -> _Component:
    def add(digest: hashlib._Hash, parts: Iterator[pl.Series], _: _Read) -> hashlib._Hash:
        for part in parts:
            _add(digest, of(part))
        return digest

    return add


def _add_numbers(digest: hashlib._Hash, parts: Iterator[pl.Series], read: _Read) -> hashlib._Hash:
    """Add numbers; of a column with a null anywhere as floats, nan for null."""
    added = digest.copy()
    for part in parts:
        if part.null_count() and not part.dtype.is_float():
            return _values(lambda column: column.cast(pl.Float64))(digest, read(), read)
        _add(added, part)
    return added


def _add_text(digest: hashlib._Hash, parts: Iterator[pl.Series], _: _Read) -> hashlib._Hash:
    for part in parts:
        for text in part.drop_nulls():
            digest.update(text.encode())
    return digest


def _add_json(digest: hashlib._Hash, parts: Iterator[pl.Series], _: _Read) -> hashlib._Hash:
    """Add the values as one list in JSON."""
    digest.update(b"[")
    between = ""
    for part in parts:
        if len(part):
            listed = json.dumps(part.to_list(), default=str, sort_keys=True)
            digest.update((between + listed[1:-1]).encode())
            between = ", "
    digest.update(b"]")
    return digest


def _add(digest: hashlib._Hash, column: pl.Series) -> None:
    values = column.to_numpy()
    digest.update(np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).data)
