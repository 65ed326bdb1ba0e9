"""A hash of a trace's content."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import polars as pl

from paceline.concurrency import Concurrency
from paceline.trace.schema import COLUMNS

__all__ = ["frame_sha256"]


def frame_sha256(
    frame: pl.DataFrame, prefix_block_tokens: int | None, clients: Concurrency | None = None
) -> str:
    """Hash the columns of a checked trace, and the clients that send its requests if there are any.

    SHA-256 over, for each column in the schema's order: its name, its type, its length, and its values
    as little-endian bytes. Text and lists go in as one column of lengths (-1 for null) and one of their
    joined contents. A further column goes in with a mask of its nulls; one of another type as JSON.
    Names and sources of traces are not part of it.
    """
    digest = hashlib.sha256(f"paceline trace 1;{prefix_block_tokens}".encode())
    for column in frame.get_columns():
        if column.name not in COLUMNS:
            _add_further(digest, column)
            continue
        digest.update(f";{column.name}:{column.dtype}:{len(column)};".encode())
        if column.dtype == pl.String:
            lengths = column.str.len_bytes().cast(pl.Int64).fill_null(-1)
            _add(digest, lengths)
            for text in column.drop_nulls():
                digest.update(text.encode())
        elif column.dtype == pl.List(pl.String):
            digest.update(json.dumps(column.to_list()).encode())
        elif isinstance(column.dtype, pl.List):
            _add(digest, column.list.len().cast(pl.Int64))
            _add(digest, column.explode(empty_as_null=False))
        else:
            _add(digest, column)
    if clients is not None:
        digest.update(f";{clients!r}".encode())
    return digest.hexdigest()


def _add_further(digest: hashlib._Hash, column: pl.Series) -> None:
    digest.update(f";{column.name}:{column.dtype}:{len(column)};".encode())
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        _add(digest, column.is_null())
        _add(digest, column.fill_null(0 if column.dtype.is_numeric() else False))
    else:
        digest.update(json.dumps(column.to_list(), default=str, sort_keys=True).encode())


def _add(digest: hashlib._Hash, column: pl.Series) -> None:
    values = column.to_numpy()
    digest.update(np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).data)
