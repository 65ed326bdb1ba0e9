"""The rankers of the light family: what they learn, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paceline.errors import RankError
from paceline.rank import (
    ListwiseRanker,
    PairwiseRanker,
    PointwiseRanker,
    Ranker,
    kendall_tau,
    tau_with_interval,
)
from unit.rank.drawn import STARTS, drawn

KINDS = [PairwiseRanker, ListwiseRanker, PointwiseRanker]


@pytest.mark.parametrize("kind", KINDS)
def test_each_objective_learns_which_prompts_have_long_answers(kind: type[Ranker]) -> None:
    prompts, lengths = drawn(600)
    ranker = kind(bits=14).fit(prompts, lengths)  # type: ignore[call-arg]
    scores = ranker.score([f"{start} cactus." for start in STARTS])
    assert scores.argsort().tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_scores(kind: type[Ranker]) -> None:
    prompts, lengths = drawn(200)
    one, same, other = (
        kind(seed=seed, steps=20, bits=12).fit(prompts, lengths).score(prompts)  # type: ignore[call-arg]
        for seed in (3, 3, 4)
    )
    assert (one == same).all()
    assert kind is PointwiseRanker or not (one == other).all()


def test_only_lengths_of_one_group_are_compared() -> None:
    # The second model answers everything with a hundred times as many tokens, and had other prompts.
    short, lengths = drawn(300)
    names = ["terse"] * 300 + ["verbose"] * 300
    long = ["Name a cat."] * 150 + ["Write a story about a cat."] * 150
    ranker = PairwiseRanker(steps=100, bits=14, held_out=0)
    ranker.fit(short + long, np.concatenate([lengths, [400.0] * 150, [30_000.0] * 150]), groups=names)
    scores = ranker.score(
        ["Name a river and a lamp.", "Name a cat.", "Write a story about a river and a lamp."]
    )
    assert scores[1] < scores[2], "a terse model's story is longer than a verbose model's name, as prompts go"


def test_prompts_are_held_out_with_all_their_samples() -> None:
    prompts, lengths = drawn(400)
    distinct = sorted(set(prompts))
    ranker = PairwiseRanker(steps=20, bits=12, held_out=0.25).fit(prompts, lengths)
    assert ranker.manifest is not None
    assert ranker.manifest.data.prompts == len(distinct)
    held = ranker.manifest.quality["held_out"]
    assert held.of == f"{round(0.25 * len(distinct))} held-out prompts"
    # 0.3 of noise against steps of a factor of 2 and more.
    assert held.tau > 0.6


def test_predicted_tokens_are_quantiles_of_the_lengths() -> None:
    prompts, lengths = drawn(3000)
    ranker = PairwiseRanker(steps=60, bits=12, held_out=0.5).fit(prompts, lengths)
    fresh, true = drawn(2000, seed=9)
    for level in (0.1, 0.5, 0.9):
        assert (true <= ranker.predict_tokens(fresh, level=level)).mean() == pytest.approx(level, abs=0.08)
    with pytest.raises(RankError, match=r"the quantile must be from 0\.05 to 0\.95, was 2"):
        ranker.predict_tokens(fresh, level=2)


def test_too_few_prompts_predict_no_tokens() -> None:
    prompts, lengths = drawn(50)
    with pytest.raises(RankError, match="needs a ranker with at least 20 held-out prompts"):
        PairwiseRanker(steps=5, bits=10).fit(prompts, lengths).predict_tokens(prompts)


def test_progress_is_reported_up_to_the_end() -> None:
    prompts, lengths = drawn(50)
    seen: list[tuple[int, int]] = []
    ranker = PairwiseRanker(steps=5, bits=10).fit(prompts, lengths, progress=lambda *of: seen.append(of))
    assert seen[-1] == (5, 5)
    ranker.score(prompts * 50, progress=lambda *of: seen.append(of))
    assert seen[-1] == (2500, 2500)


@pytest.mark.parametrize(
    ("prompts", "lengths", "message"),
    [
        (["a", "", "c"], [1, 2, 3], "prompts, row 1: must be a text that is not empty, was ''"),
        (["a", " \n", "c"], [1, 2, 3], "prompts, row 1: must be a text"),
        (["a", None], [1, 2], "prompts, row 1: must be a text that is not empty, was None"),
        ("abc", [1, 2, 3], "prompts must be a list of texts"),
        (["a"], [5], "training needs at least 2 samples, was 1"),
        (["a", "b"], [5, 5], "lengths must not all be equal, .* all were 5"),
        (["a", "b"], [5, float("nan")], "lengths, row 1: must be a finite number above 0, was nan"),
        (["a", "b"], [0, 5], "lengths, row 0: must be a finite number above 0, was 0"),
        (["a", "b"], [5], "lengths must be one for each of 2 prompts"),
    ],
)
def test_bad_samples_are_refused_by_row(prompts: list[str], lengths: list[float], message: str) -> None:
    with pytest.raises(RankError, match=message):
        PairwiseRanker().fit(prompts, lengths)


def test_an_empty_prompt_is_not_scored() -> None:
    prompts, lengths = drawn(50)
    ranker = PairwiseRanker(steps=5, bits=10).fit(prompts, lengths)
    with pytest.raises(RankError, match="prompts, row 2: must be a text that is not empty, was ''"):
        ranker.score(["a", "b", ""])
    assert ranker.score([]).tolist() == []


def test_a_ranker_scores_after_it_was_trained() -> None:
    with pytest.raises(RankError, match="was not trained: call fit"):
        PairwiseRanker().score(["a"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"delta": 1.0}, "delta must be a number from 0 to below 1, was 1.0"),
        ({"family": "heavy"}, "family must be one of light, neural, was 'heavy'"),
        ({"encoder": "bert-base-uncased"}, "encoder is of the neural family"),
        ({"layers": 3}, "the light family does not have these options: .*layers"),
        ({"held_out": 1}, "held_out must be a share from 0 to below 1, was 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(RankError, match=message):
        PairwiseRanker(**settings)


def test_any_text_has_a_score() -> None:
    prompts, lengths = drawn(50)
    ranker = PairwiseRanker(steps=5, bits=10).fit(prompts, lengths)
    texts = ["\ud800", "x" * 1_000_000, "?" * 50, "数える", "a\x00b", "word " * 100_000, "\t1\n\n2"]
    assert np.isfinite(ranker.score(texts)).all()


def test_on_many_prompts_it_beats_their_length_and_chance(alpaca: tuple[list[str], np.ndarray]) -> None:
    prompts, lengths = alpaca
    held = np.random.default_rng(0).permutation(len(prompts))[:800]
    kept = np.setdiff1d(np.arange(len(prompts)), held)
    ranker = PairwiseRanker(held_out=0).fit([prompts[row] for row in kept], lengths[kept])
    texts = [prompts[row] for row in held]
    learned = tau_with_interval(ranker.score(texts), lengths[held], resamples=300)
    size = tau_with_interval([len(text) for text in texts], lengths[held], resamples=300)
    assert learned.low > size.high
    assert learned.low > 0.5  # the ridge on hashed n-grams has 0.54
    assert kendall_tau(ranker.score(texts), lengths[held]) == learned.value
