"""Intervals over replications: Student's t."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["mean_interval", "t_quantile"]


def mean_interval(values: NDArray[np.float64], confidence: float) -> tuple[float, float, float]:
    """Return the mean of independent values, and the ends of its confidence interval.

    With fewer than two values the ends are nan: one replication says nothing about another.

    Examples
    --------
    >>> mean, low, high = mean_interval(np.array([1.0, 2.0, 3.0]), 0.95)
    >>> round(mean, 3), round(low, 3), round(high, 3)
    (2.0, -0.484, 4.484)
    """
    mean = float(values.mean()) if values.size else math.nan
    if values.size < 2:
        return mean, math.nan, math.nan
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    reach = t_quantile((1 + confidence) / 2, values.size - 1) * error
    return mean, mean - reach, mean + reach


def t_quantile(share: float, degrees: int) -> float:
    """Return a quantile, 0.5 or above, of Student's t distribution.

    Bisects its distribution function. With t = sqrt(v) tan(a) its density is proportional to cos(a)**(v - 1),
    which is smooth, so that Gauss-Legendre quadrature of 64 points integrates it.
    """
    nodes, weights = np.polynomial.legendre.leggauss(64)
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)

    def below(angle: float) -> float:
        # Long tails of many degrees lie in a narrow peak at 0: nodes beyond it add nothing.
        width = min(angle, 40 / math.sqrt(degrees))
        at: NDArray[Any] = width * (nodes + 1) / 2
        return 0.5 + scale * width / 2 * float(weights @ np.cos(at) ** (degrees - 1))

    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < share else (low, middle)
    return math.sqrt(degrees) * math.tan((low + high) / 2)
