"""Draws of blocks: means and quantiles are those of the drawn requests, counted out one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from paceline.comparing import bootstrap
from paceline.comparing.bootstrap import Draws, interval


def drawn(draws: Draws, row: int, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the requests of a draw, copied as often as their block is in it."""
    copies = np.repeat(values, draws.counts[row][draws.block].astype(int))
    return copies[~np.isnan(copies)]


def values_of(requests: int) -> NDArray[np.float64]:
    """Return latencies with ties, and some missing."""
    generator = np.random.default_rng(requests)
    values = generator.exponential(size=requests)
    values[generator.random(requests) < 0.2] = 1.0
    values[generator.random(requests) < 0.1] = math.nan
    return values


@pytest.mark.parametrize(("requests", "blocks"), [(1, 1), (11, 3), (50, 10), (400, 20), (5000, 70)])
def test_figures_of_a_draw_are_those_of_its_requests(requests: int, blocks: int) -> None:
    values, draws = values_of(requests), Draws.of(requests, blocks=blocks, draws=30, seed=3)
    means = draws.means(values)
    for row in range(30):
        copies = drawn(draws, row, values)
        assert means[row] == pytest.approx(copies.mean() if copies.size else math.nan, nan_ok=True)
    for share in (0.5, 0.9, 0.99):
        found = draws.quantiles(values, share)
        for row in range(30):
            copies = drawn(draws, row, values)
            expected = np.quantile(copies, share) if copies.size else math.nan
            assert found[row] == pytest.approx(expected, nan_ok=True)


def test_a_window_of_more_ranks_than_the_grid_is_interpolated(monkeypatch: pytest.MonkeyPatch) -> None:
    values, draws = values_of(5000), Draws.of(5000, blocks=70, draws=30, seed=3)
    monkeypatch.setattr(bootstrap, "_GRID", 64)
    for share in (0.5, 0.9, 0.99):
        found = draws.quantiles(values, share)
        for row in range(30):
            # Between two of 64 ranks lie some ten of 4,500 requests.
            copies = drawn(draws, row, values)
            low, high = np.quantile(copies, [max(0, share - 0.01), min(1, share + 0.01)])
            assert low <= found[row] <= high


def test_blocks_are_consecutive_and_nearly_equal_and_a_draw_has_as_many_as_there_are() -> None:
    draws = Draws.of(103, blocks=10, draws=5, seed=0)
    sizes = np.bincount(draws.block)
    assert (np.diff(draws.block) >= 0).all()
    assert len(sizes) == 10
    assert set(sizes) == {10, 11}
    assert (draws.counts.sum(axis=1) == 10).all()


def test_the_interval_of_a_mean_of_independent_values_is_the_textbooks() -> None:
    # Normal with known deviation: mean ± 1.96 / sqrt(n). Blocks of independent values vary as much.
    values = np.random.default_rng(5).normal(size=10_000)
    low, high = interval(Draws.of(10_000, blocks=100, draws=4000, seed=1).means(values), 0.95)
    assert (high - low) / 2 == pytest.approx(1.96 / 100, rel=0.25)
    assert low < values.mean() < high


def test_dependent_requests_have_wider_intervals_than_the_same_values_shuffled() -> None:
    generator = np.random.default_rng(9)
    waves = np.repeat(generator.normal(size=100), 100)
    shuffled = generator.permutation(waves)
    draws = Draws.of(10_000, blocks=100, draws=1000, seed=1)
    widths = [np.diff(interval(draws.means(values), 0.95))[0] for values in (waves, shuffled)]
    # A hundred equal values in a row tell as much as one: ten times the deviation.
    assert widths[0] / widths[1] == pytest.approx(10, rel=0.4)


def test_no_interval_of_fewer_than_two_draws() -> None:
    assert all(map(math.isnan, interval(np.array([1.0, math.nan]), 0.95)))
