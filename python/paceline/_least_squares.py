"""Least squares over a few bounded numbers: seconds, or logarithms of what is positive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import ConfigError

__all__ = ["Floats", "fit_bounded"]

Floats = NDArray[np.float64]


def fit_bounded(
    residuals: Callable[[Floats], Floats],
    start: Floats,
    low: Floats,
    high: Floats,
    *,
    differences: Sequence[float],
    evaluations: int,
    tolerance: float,
) -> Floats:
    """Return the numbers within bounds at which a sum of squares is least.

    SciPy's trust-region method runs once for each of ``differences``, each run from the best result so far.
    Nothing is random: the same input gives the same result.

    Parameters
    ----------
    residuals
        The deviations, by the numbers.
    start, low, high
        The start, and the bounds.
    differences
        Steps of a number that slopes are measured over. Replays move in small jumps, so a step must be far
        above the jumps.
    evaluations
        The most steps of one run.
    tolerance
        Share by which the sum of squares, or the numbers, must change for a run to continue.

    Raises
    ------
    ConfigError
        If SciPy is not installed.

    Examples
    --------
    >>> x = np.array([1.0, 2.0, 4.0])
    >>> line = lambda logs: np.log(np.exp(logs[0]) + np.exp(logs[1]) * x) - np.log(3.0 + 0.5 * x)
    >>> low, high = np.full(2, -5.0), np.full(2, 5.0)
    >>> found = fit_bounded(
    ...     line, np.zeros(2), low, high, differences=(1e-3,), evaluations=50, tolerance=1e-9
    ... )
    >>> np.exp(found).round(3).tolist()
    [3.0, 0.5]
    """
    least_squares = _scipy_least_squares()
    room = 1e-6 * (high - low)
    best, least = np.clip(start, low + room, high - room), np.inf
    for difference in differences:
        solution = least_squares(
            residuals,
            best,
            jac=_slopes(residuals, difference, high),
            bounds=(low, high),
            max_nfev=evaluations,
            ftol=tolerance,
            xtol=tolerance,
        )
        if solution.cost < least:
            best, least = np.clip(solution.x, low + room, high - room), solution.cost
    return best


def _slopes(
    residuals: Callable[[Floats], Floats], difference: float, high: Floats
) -> Callable[[Floats], Floats]:
    """Return the slopes of the residuals by finite differences, a column for each number."""

    def at(point: Floats) -> Floats:
        here = residuals(point)
        columns = []
        for index in range(len(point)):
            there = np.array(point)
            # Inwards where the upper bound is near.
            step = difference if point[index] + difference <= high[index] else -difference
            there[index] += step
            columns.append((residuals(there) - here) / step)
        return np.array(columns).T

    return at


def _scipy_least_squares() -> Any:  # noqa: ANN401 - SciPy has no types
    try:
        from scipy.optimize import least_squares  # type: ignore[import-untyped]
    except ImportError as error:
        raise ConfigError(
            "fitting needs SciPy, which is not installed: pip install 'paceline[calibrate]'"
        ) from error
    return least_squares
