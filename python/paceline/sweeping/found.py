"""The rows that a sweep has found so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from paceline.sweeping.evaluate import Row
from paceline.sweeping.measure import frame_of

__all__ = ["Found"]

_TOGETHER: Final = 4096
"""Rows that become a table at once: a table takes a fraction of their memory."""


class Found:
    """Rows by the places of their points.

    Parameters
    ----------
    types
        The types of the axes, as of `Point`.
    """

    def __init__(self, types: Mapping[str, str]) -> None:
        self._types = types
        self._rows: list[Row] = []
        self._places: list[int] = []
        self._tables: list[pl.DataFrame] = []

    def add(self, place: int, row: Row) -> None:
        """Add the row of a point."""
        self._places.append(place)
        self._rows.append(row)
        if len(self._rows) == _TOGETHER:
            self._pack()

    def frame(self) -> pl.DataFrame:
        """Return all rows in the order of their points."""
        self._pack()
        order = pl.Series(self._places).arg_sort()
        return pl.concat(self._tables)[order]

    def _pack(self) -> None:
        if self._rows or not self._tables:
            self._tables.append(frame_of(self._types, self._rows))
            self._rows = []
