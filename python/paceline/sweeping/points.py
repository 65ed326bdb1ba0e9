"""The points of a grid, each made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, overload

from paceline.sweeping.point import Point

__all__ = ["Points"]


class Points(Sequence[Point]):
    """All combinations of the labels of some axes, the last axis fastest.

    Parameters
    ----------
    axes
        The labels of each axis.
    make
        Makes a point of a label for each axis.
    """

    def __init__(self, axes: list[list[Any]], make: Callable[[tuple[Any, ...]], Point]) -> None:
        self._axes = axes
        self._make = make
        self._count = prod(map(len, axes))

    def __len__(self) -> int:
        """Return the number of points."""
        return self._count

    @overload
    def __getitem__(self, at: int) -> Point: ...

    @overload
    def __getitem__(self, at: slice) -> list[Point]: ...

    def __getitem__(self, at: int | slice) -> Point | list[Point]:
        """Return a point, or a list of points."""
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(self._count))]
        place = at + self._count if at < 0 else at
        if not 0 <= place < self._count:
            raise IndexError(f"the points of a grid are 0 to {self._count - 1}, was {at}")
        labels = []
        for axis in reversed(self._axes):
            place, of_axis = divmod(place, len(axis))
            labels.append(axis[of_axis])
        return self._make(tuple(reversed(labels)))
