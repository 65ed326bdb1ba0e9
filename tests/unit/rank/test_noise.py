"""Noisy scores have the tau that is asked for."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from paceline.errors import RankError
from paceline.rank import kendall_tau, noisy_scores

LENGTHS = np.random.default_rng(11).lognormal(5, 1, 3000).round() + 1


@pytest.mark.parametrize("kind", ["gaussian", "outliers"])
@pytest.mark.parametrize("tau", [-0.5, 0.0, 0.1, 0.5, 0.65, 0.96])
def test_the_tau_is_as_wanted(kind: Literal["gaussian", "outliers"], tau: float) -> None:
    # Moving one request of 3,000 changes tau by up to 2/3000.
    assert kendall_tau(noisy_scores(LENGTHS, tau=tau, kind=kind), LENGTHS) == pytest.approx(tau, abs=2e-3)


@pytest.mark.parametrize("kind", ["gaussian", "outliers"])
def test_a_tau_of_one_is_the_order_of_the_lengths(kind: Literal["gaussian", "outliers"]) -> None:
    assert kendall_tau(noisy_scores(LENGTHS, tau=1, kind=kind), LENGTHS) == pytest.approx(1)
    assert kendall_tau(noisy_scores(LENGTHS, tau=-1, kind=kind), LENGTHS) == pytest.approx(-1)


def test_many_requests_are_scored_by_a_sample_of_them() -> None:
    lengths = np.random.default_rng(1).lognormal(5, 1, 50_000)
    assert kendall_tau(noisy_scores(lengths, tau=0.4), lengths) == pytest.approx(0.4, abs=0.02)


def test_outliers_leave_most_requests_with_their_own_score() -> None:
    gaussian, outliers = (noisy_scores(LENGTHS, tau=0.8, kind=kind) for kind in ("gaussian", "outliers"))
    # Pairs of exact scores are all in order, and those of an exact and a random one 2 of 3 times: if a share
    # k is exact, tau is k * k + 2 * k * (1 - k) / 3.
    assert (outliers == LENGTHS).mean() == pytest.approx((1 + 3 * 0.8) ** 0.5 - 1, abs=0.02)
    assert (gaussian == LENGTHS).mean() < 0.01


def test_the_seed_decides() -> None:
    one, same, other = (noisy_scores(LENGTHS, tau=0.5, seed=seed) for seed in (1, 1, 2))
    assert (one == same).all()
    assert abs(kendall_tau(one, other)) < 0.5


@pytest.mark.parametrize("tau", [1.5, float("nan"), "much"])
def test_a_tau_that_cannot_be_is_refused(tau: float) -> None:
    with pytest.raises(RankError, match="tau must be a number from -1 to 1, was"):
        noisy_scores(LENGTHS, tau=tau)


def test_lengths_without_an_order_are_refused() -> None:
    with pytest.raises(RankError, match="must not all be equal"):
        noisy_scores([3, 3, 3], tau=0.5)
