"""How many experts a batch needs: the closed form, and measured curves."""

from __future__ import annotations

from itertools import pairwise
from math import comb

import numpy as np
import pytest

from paceline.cost import Coverage
from paceline.cost.mixture import covered_experts, slowest_rank
from paceline.errors import ConfigError
from paceline.model import Experts, Model, model_names

# Table 1 of the layered-prefill paper, in percent of 128 experts.
TABLE_1 = {
    1: 6.25, 2: 11.7, 4: 21.3, 8: 29.0, 16: 44.5, 32: 54.7, 64: 69.4, 128: 86.3, 256: 93.4, 512: 98,
}  # fmt: skip
MEASURED = Coverage.load("qwen3-30b-a3b-sharegpt")
QWEN = Experts(count=128, per_token=8, intermediate_size=768)
MIXTURES = [name for name in model_names() if Model.load(name).experts is not None]


@pytest.mark.parametrize("name", MIXTURES)
def test_one_token_needs_its_own_experts_and_many_need_all(name: str) -> None:
    experts = Model.load(name).experts
    assert experts is not None
    covered = covered_experts(experts, None)
    assert covered[0] == pytest.approx(experts.per_token)
    assert covered[-1] == experts.count
    assert covered[-2] == pytest.approx(experts.count, abs=1e-3)
    assert all(before < after for before, after in pairwise(covered))


@pytest.mark.parametrize(
    ("count", "per_token", "tokens"), [(128, 8, 16), (32, 4, 5), (8, 2, 3), (256, 8, 64)]
)
def test_the_closed_form_is_what_drawing_experts_gives(count: int, per_token: int, tokens: int) -> None:
    generator = np.random.default_rng(7)
    # Each token takes the experts with its highest scores, all alike.
    scores = generator.random((1500, tokens, count))
    chosen = np.argpartition(scores, -per_token, axis=2)[:, :, -per_token:]
    hit = np.zeros((1500, count), bool)
    np.put_along_axis(hit, chosen.reshape(1500, -1), True, axis=1)
    covered = covered_experts(Experts(count=count, per_token=per_token, intermediate_size=1), None)
    assert covered[tokens - 1] == pytest.approx(hit.sum(axis=1).mean(), rel=0.01)


def test_a_token_that_takes_all_experts_needs_all() -> None:
    assert covered_experts(Experts(count=4, per_token=4, intermediate_size=1), None) == (4.0,)


@pytest.mark.parametrize("tokens", TABLE_1)
def test_the_measured_curve_is_the_papers(tokens: int) -> None:
    covered = covered_experts(QWEN, MEASURED)
    assert covered[tokens - 1] == pytest.approx(TABLE_1[tokens] / 100 * 128)


def test_real_batches_need_fewer_experts_than_uniform_ones() -> None:
    measured, uniform = covered_experts(QWEN, MEASURED), covered_experts(QWEN, None)
    for tokens in (2, 4, 8, 16, 32, 64, 128):
        assert measured[tokens - 1] < uniform[tokens - 1]


def test_between_points_the_curve_is_straight_in_the_logarithm() -> None:
    curve = Coverage(tokens=(1, 4, 16), share=(0.1, 0.3, 0.7))
    assert curve.at(2) == pytest.approx(0.2)
    assert curve.at(8) == pytest.approx(0.5)
    assert curve.at(16) == curve.at(1000) == 0.7


@pytest.mark.parametrize("covered", [2, 8, 31, 64, 100, 127])
def test_the_busier_of_two_ranks_has_what_dealing_out_gives(covered: int) -> None:
    # Of 128 experts, `covered` are needed and 64 are here: hypergeometric; the other rank has the rest.
    ways = {here: comb(64, here) * comb(64, covered - here) for here in range(covered + 1)}
    mean = sum(max(here, covered - here) * number for here, number in ways.items()) / comb(128, covered)
    assert slowest_rank(covered, 128, 2) == pytest.approx(mean, rel=0.08)


@pytest.mark.parametrize("ranks", [4, 8])
def test_the_busiest_of_more_ranks_has_what_dealing_out_gives(ranks: int) -> None:
    generator = np.random.default_rng(3)
    for covered in (8, 40, 110):
        draws = np.stack([generator.permutation(128)[:covered] % ranks for _ in range(3000)])
        most = np.stack([(draws == rank).sum(axis=1) for rank in range(ranks)]).max(axis=0).mean()
        assert slowest_rank(covered, 128, ranks) == pytest.approx(most, rel=0.08)


def test_a_rank_never_needs_more_than_it_holds() -> None:
    assert slowest_rank(128, 128, 4) == 32
    assert slowest_rank(127.9, 128, 4) <= 32
    assert slowest_rank(1, 128, 8) == 1
    assert slowest_rank(5, 8, 1) == 5


@pytest.mark.parametrize(
    ("tokens", "share", "rule"),
    [
        ((), (), "tokens of a Coverage must be numbers, one or more, was"),
        ((2, 4), (0.1, 0.2), "tokens of a Coverage must go from 1 to at most 65536, was 2 to 4"),
        ((1, 2**17), (0.1, 0.2), "was 1 to 131072"),
        ((1, 4, 4), (0.1, 0.2, 0.3), "tokens of a Coverage must rise, was 4 after 4"),
        ((1, 2), (0.3, 0.2), r"share of a Coverage must never fall, was 0\.2 after 0\.3"),
        ((1, 2), (0.3, 1.2), r"share of a Coverage must be a number above 0 and at most 1, was 1\.2"),
        ((1, 2), (0.3,), "share of a Coverage must be as many as its 2 tokens, was 1"),
    ],
)
def test_a_curve_that_is_none_is_refused(
    tokens: tuple[int, ...], share: tuple[float, ...], rule: str
) -> None:
    with pytest.raises(ConfigError, match=rule):
        Coverage(tokens=tokens, share=share)


def test_an_unknown_curve_says_what_there_is() -> None:
    with pytest.raises(ConfigError, match=r"there is no coverage 'qwen3'; .*qwen3-30b-a3b-sharegpt"):
        Coverage.load("qwen3")
