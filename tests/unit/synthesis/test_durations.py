"""Distributions of seconds and of counts with long tails, against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.synthesis import ExponentialTime, FixedTime, LognormalTime, LogQuantiles, QuantileTime
from paceline.synthesis.tables import LogTable

EVEN = (np.arange(200_000) + 0.5) / 200_000
POINTS = ((0.0, 1.0), (0.5, 10.0), (0.9, 10.0), (1.0, 1_000.0))


def test_exponential_times_have_their_mean_and_their_quantiles() -> None:
    drawn = ExponentialTime(4.0).seconds(EVEN)
    assert drawn.mean() == pytest.approx(4.0, rel=1e-4)
    assert np.quantile(drawn, 0.9) == pytest.approx(4.0 * math.log(10), rel=1e-4)


def test_lognormal_times_have_their_median_and_end_at_their_longest() -> None:
    drawn = LognormalTime(median_s=2.0, sigma=1.0, high_s=30.0).seconds(EVEN)
    assert np.median(drawn) == pytest.approx(2.0, rel=1e-4)
    assert np.quantile(drawn, 0.8413447) == pytest.approx(2.0 * math.e, rel=1e-3)
    assert drawn.max() == 30.0


def test_a_table_has_its_points_and_its_mean() -> None:
    assert QuantileTime(POINTS).seconds(np.array([0.5, 0.7])).tolist() == pytest.approx([10.0, 10.0])
    table = LogTable(POINTS)
    # 9 / ln 10 in the first half, 10 in the next 0.4, 990 / ln 100 in the last tenth.
    exact = 0.5 * 9 / math.log(10) + 4.0 + 0.1 * 990 / math.log(100)
    assert table.mean == pytest.approx(exact)
    assert table.values(EVEN).mean() == pytest.approx(exact, rel=1e-4)
    assert LogQuantiles(POINTS).tokens(EVEN).max() <= 1_000


def test_a_fixed_time_is_always_the_same() -> None:
    assert FixedTime(3).seconds(np.array([0.1, 0.9])).tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ExponentialTime(0.0), "mean_s must be a finite number of seconds above 0, was 0.0"),
        (lambda: LognormalTime(median_s=1.0, sigma=-1.0), "sigma must be from 0 to 20"),
        (lambda: LognormalTime(median_s=1.0, sigma=1.0, high_s=math.inf), "high_s must be a finite number"),
        (lambda: QuantileTime(((0.0, 1.0),)), "points must run from probability 0 to probability 1"),
        (lambda: QuantileTime(((0.0, 0.0), (1.0, 1.0))), "values of points must be finite and above 0"),
        (lambda: QuantileTime(((0.0, 2.0), (1.0, 1.0))), "points must rise"),
        (lambda: LogQuantiles(((0.0, 0.5), (1.0, 2.0))), "counts of points must be from 1"),
    ],
)
def test_what_makes_no_sense_is_refused(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(ConfigError, match=message):
        build()
