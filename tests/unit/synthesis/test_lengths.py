"""Distributions of lengths against their closed forms."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import ConfigError
from paceline.synthesis import Constant, Lengths, Lognormal, Quantiles, Uniform

GRID = (np.arange(200_000) + 0.5) / 200_000


def test_a_constant_is_constant() -> None:
    assert set(Constant(7).tokens(GRID).tolist()) == {7}


def test_every_count_of_a_uniform_is_as_frequent() -> None:
    counts, times = np.unique(Uniform(low=3, high=7).tokens(GRID), return_counts=True)
    assert counts.tolist() == [3, 4, 5, 6, 7]
    assert set(times.tolist()) == {40_000}


@pytest.mark.parametrize("sigma", [0.0, 0.5, 1.0])
def test_a_lognormal_from_its_mean_has_that_mean(sigma: float) -> None:
    drawn = Lognormal.from_mean(1000, sigma=sigma).tokens(GRID)
    assert drawn.mean() == pytest.approx(1000, rel=2e-3)


def test_a_lognormal_from_mean_and_median_has_both() -> None:
    drawn = Lognormal.from_mean_and_median(1000, 700).tokens(GRID)
    assert np.median(drawn) == 700
    assert drawn.mean() == pytest.approx(1000, rel=2e-3)


def test_a_lognormal_from_mean_and_p99_has_both() -> None:
    drawn = Lognormal.from_mean_and_p99(1000, 4000).tokens(GRID)
    assert np.quantile(drawn, 0.99) == pytest.approx(4000, abs=2)
    assert drawn.mean() == pytest.approx(1000, rel=2e-3)


@given(st.floats(1, 1e5), st.floats(0, 2), st.floats(0.001, 0.999))
def test_a_lognormals_quantiles_are_the_closed_form_rounded(median: float, sigma: float, p: float) -> None:
    expected = median * math.exp(sigma * NormalDist().inv_cdf(p))
    drawn = int(Lognormal(median=median, sigma=sigma).tokens(np.array([p]))[0])
    assert abs(drawn - max(1.0, expected)) <= 0.5 + 1e-6


def test_a_lognormal_outside_its_bounds_is_set_to_them() -> None:
    drawn = Lognormal(median=100, sigma=1, low=50, high=200).tokens(GRID)
    below = NormalDist().cdf(math.log(50.5 / 100))
    assert (drawn.min(), drawn.max()) == (50, 200)
    assert (drawn == 50).mean() == pytest.approx(below, abs=1e-4)


def test_an_absurdly_wide_lognormal_stays_within_what_a_trace_holds() -> None:
    drawn = Lognormal(median=1000, sigma=1000).tokens(GRID)
    assert (drawn.min(), drawn.max()) == (1, 2**30 - 1)


def test_quantiles_lie_on_straight_lines_between_points() -> None:
    table = Quantiles(((0, 10), (0.5, 20), (0.5001, 1000), (1, 1000)))
    assert table.tokens(np.array([1e-9, 0.25, 0.5, 0.50005, 0.7, 1 - 1e-9])).tolist() == [
        10,
        15,
        20,
        510,
        1000,
        1000,
    ]


@given(st.lists(st.tuples(st.floats(1e-4, 1 - 1e-4), st.integers(1, 10_000)), max_size=12), st.data())
def test_quantiles_agree_with_numpys_interpolation(
    inner: list[tuple[float, int]], data: st.DataObject
) -> None:
    p = [0.0, *sorted({point for point, _ in inner}), 1.0]
    counts = sorted(data.draw(st.lists(st.integers(1, 10_000), min_size=len(p), max_size=len(p))))
    table = Quantiles(tuple(zip(p, counts, strict=True)))
    u = np.array(data.draw(st.lists(st.floats(2.0**-53, 1 - 2.0**-53), min_size=1, max_size=20)) + p[1:-1])
    assert np.abs(table.tokens(u) - np.interp(u, p, counts)).max() <= 0.5 + 1e-6


@pytest.mark.parametrize(
    "build",
    [
        lambda: Constant(0),
        lambda: Constant(1.0),  # type: ignore[arg-type]
        lambda: Constant(2**30),
        lambda: Uniform(low=5, high=4),
        lambda: Uniform(low=0, high=4),
        lambda: Lognormal(median=0, sigma=1),
        lambda: Lognormal(median=1, sigma=-1),
        lambda: Lognormal(median=1, sigma=math.nan),
        lambda: Lognormal.from_mean_and_median(5, 6),
        lambda: Lognormal.from_mean_and_p99(1000, 999),
        lambda: Lognormal.from_mean_and_p99(1000, 16_000),
        lambda: Quantiles(((0, 1),)),
        lambda: Quantiles(((0.1, 1), (1, 2))),
        lambda: Quantiles(((0, 3), (1, 2))),
        lambda: Quantiles(((0, 0), (1, 2))),
    ],
)
def test_what_makes_no_sense_is_refused(build: object) -> None:
    assert callable(build)
    with pytest.raises(ConfigError, match="was"):
        build()


def test_equal_distributions_are_equal_and_say_what_they_are() -> None:
    assert Quantiles(((0, 1), (1, 2))) == Quantiles(((0, 1), (1, 2)))
    assert repr(Uniform(low=1, high=2)) == "Uniform(low=1, high=2)"
    assert isinstance(Constant(1), Lengths)
