"""Tables of quantiles whose logarithm is linear between points, for quantities with long tails."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from paceline.errors import ConfigError
from paceline.synthesis.stable import Floats, exp, log

__all__ = ["LogTable"]

Points = tuple[tuple[float, float], ...]


class LogTable:
    """Quantiles of a positive quantity, with straight lines between the logarithms of the points.

    Parameters
    ----------
    points
        Pairs of a probability and a value above 0, both rising, the first probability 0 and the last 1.

    Raises
    ------
    ConfigError
        If the points do not rise, do not run from 0 to 1, or a value is not above 0.

    Examples
    --------
    >>> table = LogTable(((0.0, 1.0), (0.5, 4.0), (1.0, 400.0)))
    >>> table.values(np.array([0.25, 0.75])).round(6).tolist()
    [2.0, 40.0]
    >>> round(table.mean, 4)  # the mean of each line is (b - a) / ln(b / a)
    44.0772
    """

    __slots__ = ("_levels", "_probabilities", "_rises", "_widths", "points")

    def __init__(self, points: Points) -> None:
        if len(points) < 2 or points[0][0] != 0 or points[-1][0] != 1:
            raise ConfigError(f"points must run from probability 0 to probability 1, was {points}")
        for (p, value), (next_p, next_value) in pairwise(points):
            if not (p < next_p and value <= next_value):
                raise ConfigError(f"points must rise, was {(p, value)} before {(next_p, next_value)}")
        if not (points[0][1] > 0 and math.isfinite(points[-1][1])):
            ends = points[0][1], points[-1][1]
            raise ConfigError(f"values of points must be finite and above 0, was {ends[0]} to {ends[1]}")
        self.points = points
        self._probabilities = np.array([p for p, _ in points], dtype=np.float64)
        self._levels = log(np.array([value for _, value in points], dtype=np.float64))
        self._widths = np.diff(self._probabilities)
        self._rises = np.diff(self._levels)

    def values(self, u: Floats) -> Floats:
        """Give the values at probabilities `u`."""
        line = np.searchsorted(self._probabilities, u, side="right") - 1
        np.clip(line, 0, len(self._widths) - 1, out=line)
        found = u - self._probabilities[line]
        found /= self._widths[line]
        found *= self._rises[line]
        found += self._levels[line]
        return exp(found)

    @property
    def mean(self) -> float:
        """The mean of the distribution."""
        total = 0.0
        for (p, value), (next_p, next_value) in pairwise(self.points):
            flat = next_value <= value * (1 + 1e-12)
            level = value if flat else (next_value - value) / math.log(next_value / value)
            total += (next_p - p) * level
        return total
