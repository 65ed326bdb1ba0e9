"""Fits of a few positive numbers by their logarithms."""

from __future__ import annotations

import numpy as np
import pytest

from paceline._least_squares import Floats, fit_bounded

pytest.importorskip("scipy")


def fit(residuals: object, start: list[float], low: list[float], high: list[float]) -> list[float]:
    """Fit numbers within bounds, all of them given as such, and return what was found."""
    logs = [np.log(values) for values in (start, low, high)]
    found = fit_bounded(residuals, *logs, differences=(1e-2, 1e-3), evaluations=60, tolerance=1e-9)  # type: ignore[arg-type]
    return [float(value) for value in np.exp(found)]


def power_law(logs: Floats) -> Floats:
    """Deviations from 3 * x ** 0.5 of a law of the same form, at five points."""
    factor, exponent = np.exp(logs)
    at = np.log([1.0, 2.0, 5.0, 20.0, 100.0])
    return np.asarray(np.log(factor) + exponent * at - (np.log(3.0) + 0.5 * at))


def test_the_numbers_behind_exact_data_are_found() -> None:
    found = fit(power_law, [1.0, 1.0], [0.01, 0.01], [100.0, 10.0])
    assert found == pytest.approx([3.0, 0.5], rel=1e-4)


def test_a_bound_holds_and_the_rest_is_fitted_under_it() -> None:
    # With the factor held at 2, the exponent that is left has a closed form: a regression through the origin.
    at = np.log([1.0, 2.0, 5.0, 20.0, 100.0])
    expected = 0.5 + np.log(3.0 / 2.0) * at.sum() / (at @ at)
    factor, exponent = fit(power_law, [1.0, 1.0], [0.01, 0.01], [2.0, 10.0])
    assert factor == pytest.approx(2.0, rel=1e-4)
    assert factor <= 2.0
    assert exponent == pytest.approx(expected, rel=1e-3)


def test_a_start_outside_of_the_bounds_is_moved_inside() -> None:
    assert fit(power_law, [1000.0, 0.001], [0.01, 0.01], [100.0, 10.0]) == pytest.approx([3.0, 0.5], rel=1e-4)
