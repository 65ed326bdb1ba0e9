"""Pairs: none below the least difference, labels by length, and the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.errors import RankError
from paceline.rank.pairs import draw_pairs, far_apart

LENGTHS = np.random.default_rng(7).lognormal(5, 1, 400).round() + 1


@pytest.mark.parametrize("delta", [0.0, 0.2, 0.25, 0.9])
def test_no_pair_is_nearer_than_delta(delta: float) -> None:
    pairs = draw_pairs(LENGTHS, delta=delta)
    one, other = LENGTHS[pairs.first], LENGTHS[pairs.second]
    assert (np.abs(one - other) >= delta * np.maximum(one, other)).all()
    assert (one != other).all()


def test_equation_one_counts_the_difference_of_exactly_delta() -> None:
    assert far_apart([100, 80], [80, 100], 0.2).all()
    assert not far_apart([100, 81], [81, 100], 0.2).any()


def test_labels_say_which_is_longer() -> None:
    pairs = draw_pairs(LENGTHS)
    assert set(pairs.label.tolist()) == {1, -1}
    assert ((LENGTHS[pairs.first] > LENGTHS[pairs.second]) == (pairs.label == 1)).all()


def test_each_sample_has_as_many_partners_as_wanted() -> None:
    pairs = draw_pairs(LENGTHS, partners=7)
    assert np.bincount(pairs.first).tolist() == [7] * len(LENGTHS)


def test_a_sample_with_few_others_far_from_it_has_fewer() -> None:
    # 999 samples of one length, and one that differs: it is drawn in a thousandth of the draws.
    lengths = np.full(1000, 50.0)
    lengths[0] = 500.0
    counts = np.bincount(draw_pairs(lengths, partners=2).first, minlength=1000)
    assert counts[0] == 2
    assert counts[1:].sum() < 100


def test_partners_are_drawn_uniformly_from_all_that_are_far_enough() -> None:
    # From 100 the others are 10, 20, 40: each is far enough, and drawn a third of the time.
    pairs = draw_pairs([100, 10, 20, 40], partners=6000)
    shares = np.bincount(pairs.second[pairs.first == 0], minlength=4) / 6000
    assert shares[0] == 0
    assert shares[1:] == pytest.approx([1 / 3] * 3, abs=0.03)


def test_pairs_stay_within_a_group() -> None:
    groups = np.arange(len(LENGTHS)) % 3
    pairs = draw_pairs(LENGTHS, groups=groups)
    assert (groups[pairs.first] == groups[pairs.second]).all()
    assert set(groups[pairs.first].tolist()) == {0, 1, 2}


def test_the_seed_decides() -> None:
    one, same, other = draw_pairs(LENGTHS, seed=1), draw_pairs(LENGTHS, seed=1), draw_pairs(LENGTHS, seed=2)
    assert (one.second == same.second).all()
    assert not (one.second == other.second).all()


@pytest.mark.parametrize("lengths", [[100, 100, 100], [100, 90], [5]])
def test_without_a_pair_far_enough_apart_there_is_an_error(lengths: list[int]) -> None:
    with pytest.raises(RankError, match=r"a pair that differs by at least 0\.2 .* was \d sample"):
        draw_pairs(lengths)
