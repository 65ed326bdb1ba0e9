"""Losses against values worked by hand, and gradients against differences."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from paceline.rank.losses import Floats, l1, list_mle, margin_ranking


def test_the_margin_ranking_loss_of_pairs() -> None:
    first, second = np.array([3.0, 1.0, 0.0, 2.0]), np.array([1.0, 0.5, 2.0, 2.5])
    label = np.array([1, 1, 1, -1])
    # max(0, -y (a - b) + 1): a lead of 2 costs nothing, of 0.5 costs 0.5; wrong by 2 costs 3; right by 0.5,
    # 0.5.
    loss, gradient = margin_ranking(first, second, label)
    assert loss == (0 + 0.5 + 3 + 0.5) / 4
    assert gradient.tolist() == [0.0, -0.25, -0.25, 0.25]


def test_the_margin_moves_the_point_where_a_pair_costs_nothing() -> None:
    lead = np.array([0.5])
    assert margin_ranking(lead, np.zeros(1), np.array([1]), margin=0.25)[0] == 0
    assert margin_ranking(lead, np.zeros(1), np.array([1]), margin=2.0)[0] == 1.5


def test_list_mle_of_a_list_of_three() -> None:
    # Plackett and Luce with weights 1, 2, 3 in the order 3, 1, 2: 3/6 * 1/3 * 2/2 = 1/6.
    scores = np.log([[3.0, 1.0, 2.0]])
    assert list_mle(scores)[0] == pytest.approx(math.log(6))


def test_list_mle_is_the_mean_over_lists() -> None:
    # Weights 4 and 1: in order 4/5, turned 1/5.
    scores = np.log([[4.0, 1.0], [1.0, 4.0]])
    assert list_mle(scores)[0] == pytest.approx((math.log(5 / 4) + math.log(5)) / 2)


def test_list_mle_survives_scores_far_apart() -> None:
    loss, gradient = list_mle(np.array([[-2000.0, 0.0, 2000.0]]))
    assert np.isfinite(loss)
    assert np.isfinite(gradient).all()


def test_the_absolute_error() -> None:
    loss, gradient = l1(np.array([1.0, 5.0, 2.0]), np.array([2.0, 2.0, 2.0]))
    assert loss == 4 / 3
    assert gradient.tolist() == [-1 / 3, 1 / 3, 0.0]


@pytest.mark.parametrize(
    "loss",
    [
        lambda scores: margin_ranking(scores, np.array([0.3, -1.0, 2.0, 0.1]), np.array([1, -1, 1, -1])),
        lambda scores: (list_mle(scores[None])[0], list_mle(scores[None])[1][0]),
        lambda scores: l1(scores, np.array([0.0, 3.0, -1.0, 1.0])),
    ],
    ids=["margin ranking", "ListMLE", "L1"],
)
def test_gradients_agree_with_differences(loss: Callable[[Floats], tuple[float, Floats]]) -> None:
    scores, step = np.array([0.7, -0.2, 1.9, 0.4]), 1e-6
    _, gradient = loss(scores)
    for position in range(4):
        moved = np.zeros(4)
        moved[position] = step
        slope = (loss(scores + moved)[0] - loss(scores - moved)[0]) / (2 * step)
        assert gradient[position] == pytest.approx(slope, abs=1e-6)
