"""Other fits that meet the observations as well: how far a prediction depends on which of them was found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from paceline import _check
from paceline._arguments import typed
from paceline.calibration.fit import Equal, Fit
from paceline.calibration.fitting import calibrate

if TYPE_CHECKING:
    from paceline.calibration.parameters import Parameter
    from paceline.calibration.problem import Problem

__all__ = ["EQUAL_COST", "with_equals"]

#: A fit is as good as another if its cost, half the sum of squared residuals, is at most this much more: a
#: sum of squares that is at most 1 more, which is one standard deviation where a tolerance is one.
EQUAL_COST = 0.5
#: A start is moved by at most this factor, either way.
_FACTOR = 2.0
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)


@typed()
def with_equals(
    problem: Problem,
    fit: Fit,
    *,
    starts: int = 12,
    report: Callable[[int, float], object] | None = None,
) -> Fit:
    """Fit again from other starts, and return the fit with those that meet the observations as well.

    Every parameter's start, which ``lean`` pulls to, is moved by a factor between a half and two, within its
    bounds. The factors are a Halton sequence, so the same problem gives the same fits. A fit counts if its
    cost, half the sum of squares over the observations alone, is at most `EQUAL_COST` above the least that
    was found.

    Parameters
    ----------
    problem
        What was observed.
    fit
        The result of :func:`calibrate`.
    starts
        How often to start again.
    report
        Called after each fit with how many are done, and its cost.

    Returns
    -------
    Fit
        The same fit with ``equals``: the numbers of each that counts, by rising cost.
    """
    _check.count("starts of with_equals", starts, most=10_000)
    found = []
    for index in range(1, starts + 1):
        moved = replace(problem, parameters=tuple(_moved(problem.parameters, index)))
        other = calibrate(moved)
        found.append(Equal(cost=other.cost, fitted=other.fitted))
        if report is not None:
            report(index, other.cost)
    least = min(fit.cost, *(of.cost for of in found))
    kept = sorted((of for of in found if of.cost <= least + EQUAL_COST), key=lambda of: of.cost)
    return replace(fit, equals=tuple(kept), starts=starts)


def _moved(parameters: tuple[Parameter, ...], index: int) -> Iterator[Parameter]:
    for prime, of in zip(_PRIMES * (1 + len(parameters) // len(_PRIMES)), parameters, strict=False):
        factor = math.exp(math.log(_FACTOR) * (2 * _halton(index, prime) - 1))
        yield replace(of, start=min(max(of.start * factor, of.low), of.high))


def _halton(index: int, base: int) -> float:
    """Return a term of van der Corput's sequence: the digits of a number behind the point, last first."""
    value, part = 0.0, 1.0
    while index:
        index, digit = divmod(index, base)
        part /= base
        value += digit * part
    return value
