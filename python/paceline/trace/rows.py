"""Naming a row of a trace in a message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Rows", "frame_rows"]


@dataclass(frozen=True, slots=True)
class Rows:
    """How to name the rows of a table that is being checked.

    Attributes
    ----------
    name
        The table: a path, or the trace's name.
    locate
        Names the row at a position, such as ``"conv.csv, line 7"``. Called only for a message, so it
        may be slow.
    """

    name: str
    locate: Callable[[int], str]

    def kept(self, positions: npt.NDArray[np.uint32]) -> Rows:
        """Give the rows that remain after all but those at `positions` were dropped."""
        return Rows(self.name, lambda row: self.locate(int(positions[row])))


def frame_rows(name: str) -> Rows:
    """Give names for rows that came from memory: their position, counted from 0."""
    return Rows(name, lambda row: f"{name}, row {row} (counting from 0)")
