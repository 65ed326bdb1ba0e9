"""Least squares for a few positive numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["fit_positive"]

Floats = NDArray[np.float64]


def fit_positive(
    residuals: Callable[[Floats], Floats],
    start: Floats,
    *,
    most: Floats | None = None,
    rounds: int = 60,
    tolerance: float = 1e-7,
) -> Floats:
    """Return the positive numbers that make a sum of squares least, from a start near enough.

    Levenberg and Marquardt's method on the logarithms, with slopes by finite differences: what is fitted here
    are shares and times, which are positive and known to within a factor.

    Parameters
    ----------
    residuals
        Deviations by the numbers; those of logarithms for relative errors.
    start
        Where to begin.
    most
        The most that each may be.
    rounds
        When to stop at the latest.
    tolerance
        When to stop: the share by which the sum still falls.

    Examples
    --------
    >>> x = np.array([1.0, 2.0, 4.0])
    >>> line = lambda p: np.log(p[0] + p[1] * x) - np.log(3.0 + 0.5 * x)
    >>> fit_positive(line, np.array([1.0, 1.0])).round(3).tolist()
    [3.0, 0.5]
    """
    ceiling = np.full(len(start), np.inf) if most is None else np.log(most)
    place = np.minimum(np.log(start), ceiling)
    here = residuals(np.exp(place))
    damping = 1e-3
    for _ in range(rounds):
        slopes = np.stack([_slope(residuals, place, i, here) for i in range(len(place))], axis=1)
        normal, pull = slopes.T @ slopes, slopes.T @ here
        improved = 0.0
        while damping < 1e12:
            step = np.linalg.solve(normal + damping * np.diag(np.maximum(np.diag(normal), 1e-12)), pull)
            there = np.minimum(place - step, ceiling)
            found = residuals(np.exp(there))
            gain = float(here @ here - found @ found)
            if gain > 0:
                improved = gain / float(here @ here)
                place, here, damping = there, found, damping / 5
                break
            damping *= 4
        if improved < tolerance:
            break
    return np.exp(place)


def _slope(residuals: Callable[[Floats], Floats], place: Floats, which: int, here: Floats) -> Floats:
    # A thousandth, downwards: far above the rounding of a replay's clock, and never past a ceiling.
    moved = place.copy()
    moved[which] -= 1e-3
    return (here - residuals(np.exp(moved))) / 1e-3
