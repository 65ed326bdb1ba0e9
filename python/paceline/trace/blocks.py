"""Lists of block ids as a column."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import polars as pl

from paceline.errors import TraceError
from paceline.trace.rows import Rows

__all__ = ["block_lists"]


def block_lists(field: str, cells: Sequence[Sequence[int] | None], rows: Rows) -> pl.Series:
    """Make the ``prefix`` column from a list of ids a row; no list is an empty one.

    polars takes a list of lists one list at a time; joined ids and a grouping are several times faster.

    Raises
    ------
    TraceError
        An id is not in 0 to 2**64 - 1; the message names the row and the file's `field`.
    """
    counts = np.fromiter((len(ids) if ids else 0 for ids in cells), dtype=np.int64, count=len(cells))
    try:
        joined = np.fromiter(
            chain.from_iterable(ids for ids in cells if ids), dtype=np.uint64, count=int(counts.sum())
        )
    except OverflowError as error:
        row, bad = next(
            (row, block) for row, ids in enumerate(cells) for block in ids or () if not 0 <= block < 2**64
        )
        where = rows.locate(row)
        raise TraceError(f"{where}: {field} must hold ids from 0 to 2**64 - 1, was {bad}") from error
    positions = np.arange(len(cells), dtype=np.uint32)
    pairs = pl.DataFrame({"row": np.repeat(positions, counts), "prefix": joined})
    lists = pairs.group_by("row", maintain_order=True).agg("prefix")
    placed = pl.DataFrame({"row": positions}).join(lists, on="row", how="left", maintain_order="left")
    return placed.get_column("prefix").fill_null(pl.Series([[]], dtype=pl.List(pl.UInt64)))
