"""The light ranker that comes with Paceline."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from paceline.rank import kendall_tau, tau_with_interval
from paceline.rank.manifest import Quality
from paceline.rank.shipped import FOLDER, shipped
from paceline.rank.shipping import one_more


def test_it_knows_short_tasks_from_long_ones() -> None:
    short = [
        "Is the sky blue? Answer yes or no.",
        "What is the capital of Peru?",
        "Classify: cat, oak, trout.",
    ]
    long = ["Write a detailed essay on the history of tea.", "Write a short story about a lighthouse keeper."]
    scores = shipped().score(short + long)
    assert scores[:3].max() < scores[3:].min()


def test_its_card_has_its_tau_on_new_prompts_and_models_and_the_licences() -> None:
    manifest = shipped().manifest
    assert manifest is not None
    assert {"new_prompts", "new_prompts_and_model", "one_more_model"} <= set(manifest.quality)
    for quality in manifest.quality.values():
        assert quality.low < quality.tau < quality.high
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert "CC-BY-NC-4.0" in card
    assert "Apache-2.0" in card
    assert f"{manifest.quality['new_prompts_and_model'].tau:.3f}" in card


def test_the_interval_of_one_more_model_holds_each_model_that_was_left_out() -> None:
    manifest = shipped().manifest
    assert manifest is not None
    whole = manifest.quality["one_more_model"]
    left_out = [each for name, each in manifest.quality.items() if name.startswith("new_prompts_and_model: ")]
    assert len(left_out) == 4
    assert all(whole.low < each.tau < whole.high for each in left_out)


def test_the_prediction_interval_is_students() -> None:
    taus = [Quality(tau=tau, low=0.0, high=1.0, samples=9, of="") for tau in (0.3, 0.42, 0.45, 0.5)]
    found = one_more(taus)
    values = np.array([each.tau for each in taus])
    spread = values.std(ddof=1) * np.sqrt(1 + 1 / 4)
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, 3, values.mean(), spread))
    assert found.samples == 36


def test_it_is_small() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 2_000_000


def test_it_predicts_tokens_that_rise_with_the_quantile() -> None:
    prompts = ["Name a color.", "Write an essay about rivers."]
    low, middle, high = (shipped().predict_tokens(prompts, level=level) for level in (0.1, 0.5, 0.9))
    assert (low < middle).all()
    assert (middle < high).all()
    assert (middle[0], middle[1]) == tuple(sorted(middle))


def test_it_beats_the_length_of_prompts_it_was_not_trained_on_by_cross_validation() -> None:
    manifest = shipped().manifest
    assert manifest is not None
    # Prompt length has a tau of -0.13 to 0.03 on each of the four models.
    assert manifest.quality["new_prompts_and_model"].low > 0.2


def test_kendalls_tau_is_that_of_the_interval() -> None:
    prompts = ["Name a color.", "Name a river.", "Write an essay about rivers.", "Explain rain."]
    scores = shipped().score(prompts)
    assert tau_with_interval(scores, [1, 2, 400, 90], resamples=20).value == kendall_tau(
        scores, [1, 2, 400, 90]
    )
