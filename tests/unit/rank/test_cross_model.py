"""Rankers of one model's lengths against another's; no prompt is scored by a ranker that has seen it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from paceline.errors import RankError
from paceline.rank import PairwiseRanker, Ranker, cross_model, kendall_tau
from unit.rank.drawn import drawn


def light() -> Ranker:
    return PairwiseRanker(bits=12, steps=40, held_out=0)


def answers(prompts: list[str], **lengths: npt.NDArray[np.float64]) -> pl.DataFrame:
    return pl.concat(
        pl.DataFrame({"prompt": prompts, "output_tokens": of}).with_columns(model=pl.lit(name))
        for name, of in lengths.items()
    )


class Remembering(PairwiseRanker):
    """Scores every prompt alike but for its length, and keeps which prompts it trained on and scored."""

    made: ClassVar[list[Remembering]] = []

    def fit(self, prompts: Sequence[str], lengths: npt.ArrayLike, **_: Any) -> Self:
        self.trained, self.scored, self.lengths = set(prompts), list[str](), np.asarray(lengths)
        self.made.append(self)
        return self

    def score(self, prompts: Sequence[str], **_: Any) -> npt.NDArray[np.float64]:
        self.scored.extend(prompts)
        return np.array([float(len(prompt)) for prompt in prompts])


def test_no_prompt_is_scored_by_a_ranker_that_was_trained_on_it() -> None:
    prompts = [f"{'x' * number} {number}" for number in range(1, 24)]
    frame = answers(prompts, a=np.arange(1.0, 24.0), b=np.arange(24.0, 1.0, -1))
    # A second answer to the same prompt is in the same fold.
    frame = pl.concat([frame, frame.head(5).with_columns(output_tokens=pl.lit(3.0))])
    Remembering.made.clear()
    found = cross_model(frame, ranker=lambda: Remembering(), folds=4, resamples=10)
    assert len(Remembering.made) == 2 * 4
    for each in Remembering.made:
        assert not each.trained & set(each.scored)
        assert each.trained | set(each.scored) == set(prompts)
    for of in (Remembering.made[:4], Remembering.made[4:]):
        assert sorted(prompt for each in of for prompt in each.scored) == sorted(prompts)
    # Scores follow the prompt's length, as the second model's lengths do the other way round.
    assert found.filter(model="b")["tau"].to_list() == pytest.approx([-1, -1])
    first = frame.filter(model="a")
    expected = kendall_tau([len(text) for text in first["prompt"]], first["output_tokens"].to_numpy())
    assert found.filter(model="a")["tau"].to_list() == pytest.approx([expected, expected])


def test_lengths_in_proportion_are_ranked_alike() -> None:
    prompts, lengths = drawn(150)
    frame = answers(prompts, llama=lengths, verbose=4 * lengths)
    found = cross_model(frame, ranker=light, folds=3, resamples=50, seed=3)
    assert found.select("trained_on", "model", "samples").rows() == [
        ("llama", "llama", 150),
        ("llama", "verbose", 150),
        ("verbose", "llama", 150),
        ("verbose", "verbose", 150),
    ]
    # Pairs are kept by their relative difference, and tau-b compares orders: neither sees the factor.
    assert len(set(found["tau"])) == 1
    assert found["tau"][0] > 0.5
    assert (found["low"] < found["tau"]).all()
    assert (found["tau"] < found["high"]).all()


def test_a_model_of_the_opposite_order_has_the_opposite_tau() -> None:
    prompts, lengths = drawn(150)
    found = cross_model(answers(prompts, a=lengths, b=1 / lengths), ranker=light, folds=3, resamples=10)
    same, other = found.filter(trained_on="a")["tau"]
    assert other == pytest.approx(-same)


def test_models_need_not_have_answered_the_same_prompts() -> None:
    prompts, lengths = drawn(120)
    frame = pl.concat([answers(prompts[:80], a=lengths[:80]), answers(prompts[80:], b=lengths[80:])])
    seen: list[tuple[int, int]] = []
    found = cross_model(frame, ranker=light, folds=2, resamples=10, progress=lambda *of: seen.append(of))
    assert found["samples"].to_list() == [80, 40, 80, 40]
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        ({"prompt": ["a", "", "c"]}, {}, "prompts, row 1: must be a text that is not empty"),
        ({"output_tokens": [1, 2, 0]}, {}, "output_tokens, row 2: must be a finite number above 0, was 0"),
        ({"model": ["m", None, "m"]}, {}, "model, row 1: must name the model that answered, was None"),
        ({}, {"folds": 4}, "folds must be at most the 3 distinct prompts, was 4"),
        ({}, {"folds": 3}, "model m, without the prompts of one fold: lengths must not all be equal"),
        ({}, {"folds": 2, "ranker": list}, r"ranker must return a ranker, such as .*, was \[\]"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    change: dict[str, Any], settings: dict[str, Any], message: str
) -> None:
    columns = {"prompt": ["a", "b", "c"], "model": ["m"] * 3, "output_tokens": [5, 5, 5]}
    with pytest.raises(RankError, match=message):
        cross_model(pl.DataFrame({**columns, **change}), **settings)
    with pytest.raises(RankError, match="frame must have the column model, has prompt"):
        cross_model(pl.DataFrame({"prompt": ["a"]}))
