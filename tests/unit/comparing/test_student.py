"""Student's t against scipy's."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paceline.comparing.student import mean_interval, t_quantile


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 9, 29, 100, 1000, 100_000])
@pytest.mark.parametrize("share", [0.5, 0.75, 0.95, 0.975, 0.995])
def test_quantiles_are_scipys(degrees: int, share: float) -> None:
    from scipy import stats  # which takes a second to import, in every worker that collects this

    assert t_quantile(share, degrees) == pytest.approx(float(stats.t.ppf(share, degrees)), rel=1e-8, abs=1e-9)


def test_the_interval_of_a_mean_is_scipys() -> None:
    from scipy import stats

    values = np.array([3.1, 2.7, 3.9, 3.3, 2.2])
    expected = stats.t.interval(0.9, df=4, loc=values.mean(), scale=stats.sem(values))
    assert mean_interval(values, 0.9) == pytest.approx((values.mean(), *expected))


def test_one_replication_has_a_mean_and_no_interval() -> None:
    mean, low, high = mean_interval(np.array([4.0]), 0.95)
    assert mean == 4
    assert math.isnan(low)
    assert math.isnan(high)
