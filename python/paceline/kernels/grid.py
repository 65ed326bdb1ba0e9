"""Attention over its four axes, completed where a profile measured only some of the points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline._arguments import typed, typed_fields
from paceline.errors import ConfigError
from paceline.limits import Limits

__all__ = ["Grid", "check_points"]


@dataclass(frozen=True, slots=True, eq=False)
@typed_fields()
class Grid:
    """Seconds over prompt tokens, their history, decoding requests and those requests' context.

    Parameters
    ----------
    axes
        The points of each axis, rising.
    seconds
        A time for each combination, of that shape.

    Examples
    --------
    >>> grid = Grid.of([(0, 0, 1, 16, 1.0), (0, 0, 1, 32, 2.0), (0, 0, 2, 32, 4.0), (0, 0, 2, 16, 3.0)])
    >>> grid.axes
    ((0,), (0,), (1, 2), (16, 32))
    >>> float(grid(0, 0, 1, 24))
    1.5
    """

    axes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    seconds: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.seconds.shape != tuple(len(axis) for axis in self.axes):
            raise ConfigError(
                f"a grid of {[len(axis) for axis in self.axes]} points must have as many times, "
                f"had {list(self.seconds.shape)}"
            )
        if not np.isfinite(self.seconds).all() or (self.seconds < 0).any():
            raise ConfigError("times of a grid must be finite and 0 or more")

    @classmethod
    @typed()
    def of(cls, rows: Sequence[tuple[int, int, int, int, float]]) -> Grid:
        """Complete measured points to a grid.

        Profiles are denser in some regions than in others. What is missing is filled in from the last axis
        to the first: a context between two measured ones of the same batch lies on the line between them, a
        number of requests between those of the same prompts, and so on. Past its last measured point a line
        is continued as in its last segment, or level if that falls: profiles leave out large batches of long
        contexts, and those take longer, not as long. Looking a place up in the completed grid is then what
        looking it up nested, axis by axis, would be.

        Parameters
        ----------
        rows
            Points and their time in seconds; of several at one point, the median counts.

        Raises
        ------
        ConfigError
            If there are none, or the grid that completes them exceeds the limit ``grid_points``: points that
            share no coordinates make a grid of the fourth power of their number.
        """
        if not rows:
            raise ConfigError("a grid must have at least 1 measured point, had 0")
        table = np.asarray(rows, dtype=np.float64)
        points, where = np.unique(table[:, :4], axis=0, return_inverse=True)
        by_point = np.argsort(where.reshape(-1), kind="stable")
        starts = np.searchsorted(where.reshape(-1)[by_point], np.arange(1, len(points)))
        times = (
            np.array([np.median(same) for same in np.split(table[by_point, 4], starts)])
            if len(points) < len(table)
            else table[by_point, 4]
        )
        axes = tuple(np.unique(points[:, axis]) for axis in range(4))
        check_points([len(axis) for axis in axes], "attention")
        seconds = np.full(tuple(len(axis) for axis in axes), np.nan)
        seconds[tuple(np.searchsorted(axes[axis], points[:, axis]) for axis in range(4))] = times
        for axis in (3, 2, 1, 0):
            seconds = _fill(seconds, axes[axis], axis)
        a, b, c, d = (tuple(int(point) for point in axis) for axis in axes)
        return cls((a, b, c, d), seconds)

    def __call__(self, tokens: float, history: float, requests: float, context: float) -> float:
        """Return the time at a place: linear inside, the first value below, the last stretch past the end."""
        value = self.seconds
        for axis, at in zip(self.axes, (tokens, history, requests, context), strict=True):
            if len(axis) == 1 or at <= axis[0]:
                value = value[0]
                continue
            right = min(int(np.searchsorted(axis, at)), len(axis) - 1)
            share = (at - axis[right - 1]) / (axis[right] - axis[right - 1])
            value = value[right - 1] + (value[right] - value[right - 1]) * share
        return float(value)

    def rows(self) -> list[tuple[int, int, int, int, float]]:
        """Return every point with its time."""
        index = np.indices(self.seconds.shape).reshape(4, -1)
        columns = [np.asarray(axis)[at] for axis, at in zip(self.axes, index, strict=True)]
        cells = zip(*(column.tolist() for column in columns), self.seconds.reshape(-1).tolist(), strict=True)
        return list(cells)


def check_points(sizes: Sequence[int], what: str) -> None:
    """Refuse a grid of more points than the limit ``grid_points``.

    Parameters
    ----------
    sizes
        Points of each axis.
    what
        What was measured, for the error.

    Raises
    ------
    ConfigError
        If their product exceeds the limit; the message has the sizes.
    """
    limits, points = Limits.current(), math.prod(sizes)
    if points > limits.grid_points:
        shown = " x ".join(f"{size:,}" for size in sizes)
        raise ConfigError(
            f"points of a grid of {what} {limits.over('grid_points', f'{points:,} ({shown})')}; points that "
            "share their coordinates make a smaller grid"
        )


def _fill(seconds: NDArray[np.float64], axis: NDArray[np.float64], which: int) -> NDArray[np.float64]:
    """Fill gaps along one axis, line by line, level before the first; lines without a point stay empty."""
    lines = np.moveaxis(seconds, which, -1).reshape(-1, len(axis)).copy()
    for line in lines:
        known = ~np.isnan(line)
        if known.any() and not known.all():
            points, times = axis[known], line[known]
            line[~known] = np.interp(axis[~known], points, times)
            past = axis > points[-1]
            if past.any() and len(points) > 1:
                slope = (times[-1] - times[-2]) / (points[-1] - points[-2])
                line[past] = times[-1] + max(slope, 0.0) * (axis[past] - points[-1])
    moved = np.moveaxis(seconds, which, -1).shape
    return np.moveaxis(lines.reshape(moved), -1, which)
