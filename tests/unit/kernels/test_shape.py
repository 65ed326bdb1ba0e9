"""Shapes of models with experts, from the catalog."""

from __future__ import annotations

import pytest

from paceline.kernels.shape import MIXTURES, Shape
from paceline.model import Model, model_names


def test_mixtures_are_the_catalogs_models_with_experts() -> None:
    assert set(MIXTURES) == {name for name in model_names() if Model.load(name).experts is not None}


def test_a_shape_has_the_models_experts() -> None:
    shape = MIXTURES["qwen3-235b-a22b"]
    assert (shape.experts, shape.experts_per_token) == (128, 8)
    assert (shape.layers, shape.hidden_size, shape.kv_heads, shape.head_dim) == (94, 4096, 4, 128)
    assert shape.parameters == 235_093_634_560


def test_a_dense_shape_has_none() -> None:
    shape = Shape.of(Model.load("qwen3-32b"))
    assert (shape.experts, shape.experts_per_token) == (0, 0)


@pytest.mark.parametrize("name", sorted(MIXTURES))
def test_a_shape_expects_the_experts_that_the_model_does(name: str) -> None:
    experts = Model.load(name).experts
    assert experts is not None
    for tokens in (1, 3, 100.5):
        assert MIXTURES[name].expected_experts(tokens) == experts.expected(tokens)
