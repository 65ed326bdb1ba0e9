"""Lists of block ids as a column."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import polars as pl

from paceline.errors import TraceError
from paceline.trace.rows import Rows

__all__ = ["BlockLists"]


class BlockLists:
    """The ``prefix`` column, collected part by part from a list of ids a row; no list is an empty one.

    Ids are kept as numbers of 64 bits: Python's integers would take five times the memory.

    Parameters
    ----------
    field
        The file's name for it, for errors.
    rows
        Names a row.
    """

    def __init__(self, field: str, rows: Rows) -> None:
        self._field = field
        self._rows = rows
        self._counts: list[npt.NDArray[np.int64]] = []
        self._ids: list[npt.NDArray[np.uint64]] = []
        self._seen = 0

    def add(self, cells: Sequence[Sequence[int] | npt.NDArray[np.uint64] | None]) -> None:
        """Append the lists of some rows.

        Raises
        ------
        TraceError
            An id is not in 0 to 2**64 - 1; the message names the row.
        """
        counts = np.fromiter(
            (0 if ids is None else len(ids) for ids in cells), dtype=np.int64, count=len(cells)
        )
        arrays = [ids for ids in cells if isinstance(ids, np.ndarray)]
        if arrays and len(arrays) == len(cells):
            self._seen += len(cells)
            self._counts.append(counts)
            self._ids.append(np.concatenate(arrays))
            return
        try:
            joined = np.fromiter(
                chain.from_iterable(ids for ids in cells if ids is not None),
                dtype=np.uint64,
                count=int(counts.sum()),
            )
        except OverflowError as error:
            row, bad = next(
                (row, block)
                for row, ids in enumerate(cells)
                for block in (() if ids is None else ids)
                if not 0 <= block < 2**64
            )
            where = self._rows.locate(self._seen + row)
            raise TraceError(
                f"{where}: {self._field} must hold ids from 0 to 2**64 - 1, was {bad}"
            ) from error
        self._seen += len(cells)
        self._counts.append(counts)
        self._ids.append(joined)

    def column(self) -> pl.Series:
        """Return the lists of all rows.

        polars takes a list of lists one list at a time; joined ids and a grouping are several times faster.
        """
        counts = np.concatenate([np.empty(0, dtype=np.int64), *self._counts])
        joined = np.concatenate([np.empty(0, dtype=np.uint64), *self._ids])
        positions = np.arange(self._seen, dtype=np.uint32)
        pairs = pl.DataFrame({"row": np.repeat(positions, counts), "prefix": joined})
        lists = pairs.group_by("row", maintain_order=True).agg("prefix")
        placed = pl.DataFrame({"row": positions}).join(lists, on="row", how="left", maintain_order="left")
        return placed.get_column("prefix").fill_null(pl.Series([[]], dtype=pl.List(pl.UInt64)))
