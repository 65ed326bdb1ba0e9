"""Cutting a model into the stages of a pipeline."""

from __future__ import annotations

import pytest

from paceline.errors import ConfigError
from paceline.model import Model, model_names, stages


@pytest.mark.parametrize(
    ("name", "number", "layers"),
    [
        # vLLM's documentation of VLLM_PP_LAYER_PARTITION: DeepSeek-V3's 61 layers on 2 and 4 stages.
        ("deepseek-v3", 2, [31, 30]),
        ("deepseek-v3", 4, [15, 15, 16, 15]),
        ("llama-3.1-8b", 3, [11, 11, 10]),
        ("llama-3.1-8b", 4, [8, 8, 8, 8]),
        ("llama-3.1-8b", 1, [32]),
    ],
)
def test_layers_left_over_go_to_stages_before_the_last(name: str, number: int, layers: list[int]) -> None:
    assert [stage.part.layers for stage in stages(Model.load(name), number)] == layers


@pytest.mark.parametrize("name", [name for name in model_names() if Model.load(name).recurrent is None])
@pytest.mark.parametrize("number", [2, 3, 4])
@pytest.mark.parametrize("ranks", [1, 2])
def test_stages_have_the_models_weights_between_them(name: str, number: int, ranks: int) -> None:
    model = Model.load(name)
    both = sum(stage.weight_bytes(ranks) for stage in stages(model, number))
    # A table that embedding and LM head share is on the first stage and on the last.
    twice = model.vocab_size * model.hidden_size * 2 // ranks if model.tied_embeddings else 0
    assert both == pytest.approx(model.weight_bytes(ranks) + twice, abs=2 * number)


def test_the_first_stage_has_the_embedding_and_the_last_the_head_and_the_norm() -> None:
    first, middle, last = (stage.weight_bytes() for stage in stages(Model.load("llama-2-7b"), 3))
    layer = (4 * 4096 * 4096 + 3 * 4096 * 11008 + 2 * 4096) * 2
    table = 32000 * 4096 * 2
    assert (first, middle, last) == (11 * layer + table, 11 * layer, 10 * layer + table + 4096 * 2)


def test_dense_layers_come_first() -> None:
    first, *others = (stage.part for stage in stages(Model.load("deepseek-v3"), 20))
    assert (first.layers, first.experts) == (3, None)
    assert all(part.experts is not None and part.experts.dense_layers == 0 for part in others)


def test_layers_with_windows_are_spread_over_the_stages() -> None:
    parts = [stage.part for stage in stages(Model.load("gpt-oss-20b"), 4)]
    assert [(part.layers, part.sliding_layers, part.sliding_window) for part in parts] == 4 * [(6, 3, 128)]


def test_a_stage_has_a_layer_at_least() -> None:
    with pytest.raises(
        ConfigError, match=r"pipeline_parallel must be at most the 32 layers of 'llama-3.1-8b', was 33"
    ):
        stages(Model.load("llama-3.1-8b"), 33)
