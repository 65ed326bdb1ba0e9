"""A time over one axis: straight lines between measured points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline.errors import ConfigError

__all__ = ["Curve"]


@dataclass(frozen=True, slots=True)
@typed_fields()
class Curve:
    """Seconds at points of one axis, linear between them.

    Below the first point its value holds: a kernel has a smallest size. Past the last one the last stretch
    goes on.

    Parameters
    ----------
    at
        Points, rising whole numbers.
    seconds
        A time for each.

    Raises
    ------
    ConfigError
        If there are no points, they do not rise, or a time is negative or not finite.

    Examples
    --------
    >>> curve = Curve((1, 3), (0.5, 1.5))
    >>> [float(curve(n)) for n in (0, 1, 2, 4)]
    [0.5, 0.5, 1.0, 2.0]
    >>> (curve + Curve((2, 3), (1.0, 1.0))).at
    (1, 2, 3)
    """

    at: tuple[int, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.at or len(self.at) != len(self.seconds):
            raise ConfigError(
                f"a curve must have a time for each of its points, had {len(self.seconds)} for {len(self.at)}"
            )
        if any(b <= a for a, b in zip(self.at, self.at[1:], strict=False)):
            raise ConfigError(f"points of a curve must rise, were {self.at}")
        if not all(np.isfinite(self.seconds)) or min(self.seconds) < 0:
            raise ConfigError("times of a curve must be finite and 0 or more")

    @classmethod
    @typed()
    def of(cls, pairs: Iterable[tuple[int, float]]) -> Curve:
        """Make a curve of points in any order; of several times at one point, the median counts."""
        times: dict[int, list[float]] = {}
        pairs = list(pairs)
        given: list[object] = list(pairs)
        for pair in given:
            if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(map(_check.is_number, pair)):
                raise ConfigError(f"a point of a curve must be a place and a time, was {_check.said(pair)}")
        for at, seconds in pairs:
            times.setdefault(int(at), []).append(float(seconds))
        points = tuple(sorted(times))
        return cls(points, tuple(float(np.median(times[point])) for point in points))

    @property
    def end(self) -> int:
        """The last measured point."""
        return self.at[-1]

    def __call__(self, n: float) -> float:
        """Return the time at ``n``."""
        at, seconds = self.at, self.seconds
        if n <= at[0] or len(at) == 1:
            return seconds[0]
        right = min(int(np.searchsorted(at, n)), len(at) - 1)
        left = right - 1
        slope = (seconds[right] - seconds[left]) / (at[right] - at[left])
        return max(seconds[left] + slope * (n - at[left]), 0.0)

    @typed()
    def on(self, points: Sequence[int]) -> Curve:
        """Return the curve at other points; those that lie between its own are what it says there."""
        return Curve(tuple(points), tuple(self(point) for point in points))

    @typed()
    def __add__(self, other: Curve) -> Curve:
        """Return the sum, exact on the points of both up to where the shorter one ends."""
        points = sorted({*self.at, *other.at})
        return Curve(tuple(points), tuple(self(point) + other(point) for point in points))

    @typed()
    def __mul__(self, times: float) -> Curve:
        """Return every time multiplied."""
        return Curve(self.at, tuple(times * value for value in self.seconds))

    __rmul__ = __mul__
