"""Kendall's tau-b against SciPy's, and its bootstrap."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from paceline.errors import RankError
from paceline.rank import kendall_tau, tau_by, tau_with_interval


def test_ties_are_left_out_of_both_totals() -> None:
    # Pairs: (1,2): c, (1,3): tie in x, (2,3): c; 6 pairs of 4, two ties in x, one in y.
    # x = 1 2 1 2, y = 1 2 2 3: concordant 12, 14, 32 (tie y), 34 -> c = 12, 14, 34 = 3, d = 0; n1 = 2, n2 =
    # 1.
    assert kendall_tau([1, 2, 1, 2], [1, 2, 2, 3]) == pytest.approx(3 / np.sqrt((6 - 2) * (6 - 1)))


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=2, max_size=40))
def test_it_is_scipys(pairs: list[tuple[int, int]]) -> None:
    one, other = zip(*pairs, strict=True)
    if len(set(one)) > 1 and len(set(other)) > 1:
        assert kendall_tau(one, other) == pytest.approx(kendalltau(one, other).statistic)


@pytest.mark.parametrize("size", [2, 3, 63, 64, 65, 1000])
def test_it_is_scipys_without_ties_at_any_size(size: int) -> None:
    rng = np.random.default_rng(size)
    one, other = rng.random(size), rng.random(size)
    assert kendall_tau(one, other) == pytest.approx(kendalltau(one, other).statistic)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    # Of a normal pair with correlation r, tau is 2/pi asin(r).
    truth, rng, covered = 2 / np.pi * np.arcsin(0.6), np.random.default_rng(3), 0
    for seed in range(60):
        one = rng.standard_normal(80)
        other = 0.6 * one + 0.8 * rng.standard_normal(80)
        tau = tau_with_interval(one, other, resamples=100, seed=seed)
        covered += tau.low <= truth <= tau.high
    assert 50 <= covered <= 60  # 57 expected; the binomial's 1 in 10,000 is at 49


def test_groups_are_compared_within_themselves() -> None:
    # Each group is in perfect order; across groups the order is the other way round.
    scores, lengths = [1, 2, 3, 4, 5, 6], [40, 50, 60, 1, 2, 3]
    assert kendall_tau(scores, lengths) < 0
    assert tau_with_interval(scores, lengths, groups=list("aaabbb"), resamples=20).value == pytest.approx(1)


def test_samples_of_a_cluster_are_drawn_together() -> None:
    rng = np.random.default_rng(5)
    one, other = rng.standard_normal(60), rng.standard_normal(60)
    alone = tau_with_interval(one, other, resamples=400)
    repeated = tau_with_interval(
        np.tile(one, 4), np.tile(other, 4), resamples=400, clusters=np.tile(np.arange(60), 4)
    )
    # Four copies of each sample say no more than one.
    assert repeated.high - repeated.low == pytest.approx(alone.high - alone.low, rel=0.15)


def test_by_group_a_row_each_and_nulls_where_nothing_can_be_compared() -> None:
    frame = pl.DataFrame(
        {"model": ["a", "a", "b"], "score": [1.0, 2.0, 3.0], "output_tokens": [10.0, 5.0, 3.0]}
    )
    found = tau_by(frame, ("model",), resamples=10)
    assert found.select("model", "samples", "tau").rows() == [("a", 2, -1.0), ("b", 1, None)]


@pytest.mark.parametrize(
    ("scores", "lengths", "message"),
    [
        ([1.0], [2.0], "at least 2 samples, was 1"),
        ([1.0, float("nan")], [1, 2], "scores, row 1: must be a number, was nan"),
        ([1, 2], [3, 3], "lengths must not all be equal"),
        ([1, 2, 3], [3, 4], "of one number, was 3 and 2"),
    ],
)
def test_what_has_no_tau_is_refused(scores: list[float], lengths: list[float], message: str) -> None:
    with pytest.raises(RankError, match=message):
        kendall_tau(scores, lengths)
