"""Arrival processes against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.synthesis import Arrivals, BenchmarkClient, Bursts, Gamma, Poisson, Regular
from paceline.synthesis.streams import Stream

COUNT = 200_000


def test_poisson_gaps_are_exponential() -> None:
    gaps = np.diff(Poisson().times(COUNT, 50.0, seed=1), prepend=0.0)
    # Kolmogorov-Smirnov at 1.63 / sqrt(n): one seed in a hundred would fail, and this one is fixed.
    empirical = np.arange(1, COUNT + 1) / COUNT
    exact = 1 - np.exp(-np.sort(gaps) * 50.0)
    assert np.abs(empirical - exact).max() < 1.63 / math.sqrt(COUNT)


def test_poisson_gaps_do_not_depend_on_those_before() -> None:
    gaps = np.diff(Poisson().times(COUNT, 1.0, seed=2))
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 4 / math.sqrt(COUNT)


@pytest.mark.parametrize("cv", [0.3, 1.0, 2.0, 4.0])
def test_gamma_gaps_have_the_mean_and_the_cv(cv: float) -> None:
    gaps = np.diff(Gamma(cv=cv).times(COUNT, 10.0, seed=3), prepend=0.0)
    shape = 1 / cv**2
    # Standard errors: of the mean cv / sqrt(n); of the variance sqrt((kurtosis + 2) / n), kurtosis 6 / shape.
    assert gaps.mean() * 10 == pytest.approx(1, abs=4 * cv / math.sqrt(COUNT))
    assert gaps.var() * 100 / cv**2 == pytest.approx(1, abs=4 * math.sqrt((6 / shape + 2) / COUNT))


def test_gamma_gaps_of_cv_1_are_exponential() -> None:
    gaps = np.sort(np.diff(Gamma(cv=1.0).times(COUNT, 1.0, seed=4), prepend=0.0))
    assert np.abs(np.arange(1, COUNT + 1) / COUNT - (1 - np.exp(-gaps))).max() < 1.63 / math.sqrt(COUNT)


def test_gamma_gaps_of_cv_root_2_are_squared_normals() -> None:
    # Rate 1/2 and shape 1/2 make the scale 4, and Gamma of shape 1/2 and scale 1 is half the square of a
    # normal: P(gap < x) = erf(sqrt(x / 4)).
    gaps = np.sort(np.diff(Gamma(cv=math.sqrt(2)).times(COUNT, 0.5, seed=5), prepend=0.0))[::100]
    exact = np.array([math.erf(math.sqrt(gap / 4)) for gap in gaps])
    assert np.abs(np.arange(1, COUNT + 1)[::100] / COUNT - exact).max() < 1.63 / math.sqrt(COUNT)


def test_regular_arrivals_start_at_zero_and_are_equally_far() -> None:
    assert Regular().times(4, 4.0, seed=1).tolist() == [0.0, 0.25, 0.5, 0.75]


def test_bursts_come_together_and_at_the_mean_rate() -> None:
    times = Bursts(size=50).times(COUNT, 100.0, seed=6)
    starts, sizes = np.unique(times, return_counts=True)
    assert set(sizes.tolist()) == {50}
    assert len(starts) / starts[-1] * 50 == pytest.approx(100, rel=4 / math.sqrt(len(starts)))


def test_a_spread_burst_is_evenly_laid() -> None:
    times = Bursts(size=4, spread_s=2.0).times(4, 1.0, seed=7)
    assert np.diff(times).tolist() == pytest.approx([0.5, 0.5, 0.5])


def test_overlapping_bursts_are_in_order() -> None:
    times = Bursts(size=10, spread_s=100.0).times(1000, 10.0, seed=8)
    assert (np.diff(times) >= 0).all()


def test_the_last_burst_may_be_cut() -> None:
    assert len(Bursts(size=7).times(10, 1.0, seed=9)) == 10


@pytest.mark.parametrize("process", [Poisson(), Gamma(cv=3), Gamma(cv=0.2), Regular(), Bursts(size=3)])
def test_an_infinite_rate_puts_all_at_zero(process: Arrivals) -> None:
    assert set(process.times(100, math.inf, seed=1).tolist()) == {0.0}


@pytest.mark.parametrize("cv", [0.1, 1.0, 13.15, 100.0])
def test_no_gap_is_negative_or_not_finite(cv: float) -> None:
    times = Gamma(cv=cv).times(20_000, 1.0, seed=10)
    assert np.isfinite(times).all()
    assert (np.diff(times, prepend=0.0) >= 0).all()


def test_streams_of_other_names_and_seeds_differ_and_stay_inside_0_and_1() -> None:
    draws = [Stream(seed, name).uniforms(1000) for seed in (0, 1) for name in ("a", "b")]
    assert len({draw.tobytes() for draw in draws}) == 4
    assert all(((draw > 0) & (draw < 1)).all() for draw in draws)
    assert np.array_equal(Stream(0, "a").uniforms(1000), draws[0])


@pytest.mark.parametrize(
    "build",
    [
        lambda: Gamma(cv=0),
        lambda: Gamma(cv=math.nan),
        lambda: Bursts(size=0),
        lambda: Bursts(size=2, spread_s=-1),
    ],
)
def test_what_makes_no_sense_is_refused(build: object) -> None:
    assert callable(build)
    with pytest.raises(ConfigError, match="was"):
        build()


@pytest.mark.parametrize(("seed", "rate"), [(0, 1.3), (7, 20.0)])
def test_the_benchmark_client_sends_the_first_at_once_and_draws_gaps_as_numpy_seeded_does(
    seed: int, rate: float
) -> None:
    state = np.random.get_state()
    try:
        np.random.seed(seed)
        gaps = [np.random.gamma(shape=1.0, scale=1.0 / rate) for _ in range(49)]
    finally:
        np.random.set_state(state)
    times = BenchmarkClient(seed=seed).times(50, rate, seed=99)
    assert times.tolist() == [0.0, *np.cumsum(gaps).tolist()]
    assert BenchmarkClient(seed=seed).times(50, math.inf, seed=0).tolist() == [0.0] * 50
    assert BenchmarkClient().times(1, rate, seed=0).tolist() == [0.0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": -1}, "seed must be a whole number from 0"),
        ({"burstiness": 0}, "burstiness must be a number above 0"),
    ],
)
def test_a_benchmark_client_out_of_range_is_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BenchmarkClient(**settings)
