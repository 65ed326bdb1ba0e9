"""The catalog of models, and models read from Hugging Face."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import ConfigError
from paceline.model import Model, model_names

# "Model size" of the safetensors on each model's page on huggingface.co, as that API counts parameters.
PUBLISHED = {
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-2-7b": 6_738_415_616,
    "llama-2-70b": 68_976_648_192,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "deepseek-r1-distill-qwen-32b": 32_763_876_352,
    "mistral-7b-v0.3": 7_248_023_552,
    "mixtral-8x7b": 46_702_792_704,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "phi-3.5-moe": 41_873_153_344,
}

# In billions, and half of the last digit: "116.83B" and "20.91B" in Table 1 of the gpt-oss model card
# (arXiv:2508.10925; the safetensors count packed 4-bit numbers), "671B" in the DeepSeek-V3 report
# (arXiv:2412.19437; the safetensors have the layer that predicts a second token besides), "7.6B total
# parameters" in SlimMoE (arXiv:2506.18349).
PUBLISHED_BILLIONS = {
    "qwen3-14b": (14.8, 0.05),  # model card: 14.8B, and 13.2B without embeddings
    "gpt-oss-20b": (20.91, 0.005),
    "gpt-oss-120b": (116.83, 0.005),
    "deepseek-v3": (671, 0.5),
    "deepseek-r1": (671, 0.5),
    "phi-mini-moe": (7.6, 0.05),
    "nemotron-h-8b": (8.1, 0.05),  # the safetensors of Nemotron-H-8B-Base-8K
    "nemotron-nano-9b-v2": (8.89, 0.005),  # those of NVIDIA-Nemotron-Nano-9B-v2
    "minimax-m2.5": (229, 0.5),  # the safetensors of MiniMax-M2.5; model card: 230B in total, 10B active
    "qwen3-next-80b-a3b": (80, 0.5),  # model card: 80B in total, 3B active
}

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "attention_bias": False,
}


def test_the_catalog_holds_the_models_of_the_field() -> None:
    assert set(model_names()) == set(PUBLISHED) | set(PUBLISHED_BILLIONS)


@pytest.mark.parametrize("name", PUBLISHED_BILLIONS)
def test_parameters_add_up_to_the_published_billions(name: str) -> None:
    billions, half_a_digit = PUBLISHED_BILLIONS[name]
    assert Model.load(name).parameters / 1e9 == pytest.approx(billions, abs=half_a_digit)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_add_up_to_the_published_count(name: str) -> None:
    assert Model.load(name).parameters == PUBLISHED[name]


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("qwen2.5-7b", 6.53),
        ("qwen2.5-32b", 31.0),
        ("qwen2.5-72b", 70.0),
        ("qwen3-8b", 6.95),
        ("qwen3-14b", 13.2),
        ("qwen3-32b", 31.2),
    ],
)
def test_parameters_outside_embeddings_are_the_model_cards(name: str, billions: float) -> None:
    model = Model.load(name)
    assert model.parameters - 2 * model.vocab_size * model.hidden_size == pytest.approx(
        billions * 1e9, rel=0.01
    )


def test_weights_take_what_vllm_logs() -> None:
    # vllm-project/vllm pull request 10511: "model weights take 14.96GiB", and 7.48GiB on each of two ranks.
    model = Model.load("llama-3.1-8b")
    assert model.weight_bytes() / 2**30 == pytest.approx(14.96, abs=0.005)
    assert model.weight_bytes(2) / 2**30 == pytest.approx(7.48, abs=0.005)


def test_ranks_split_all_but_norms() -> None:
    model = Model.load("qwen3-32b")
    norms = (64 * (2 * 5120 + 2 * 128) + 5120) * 2
    assert 4 * model.weight_bytes(4) == model.weight_bytes() + 3 * norms


def test_a_token_of_kv_is_the_layered_product() -> None:
    assert Model.load("llama-3.1-8b").kv_bytes_per_token() == 2 * 32 * 8 * 128 * 2
    assert Model.load("llama-2-7b").kv_bytes_per_token() == 2 * 32 * 32 * 128 * 2
    assert Model.load("llama-3.1-70b").kv_bytes_per_token(4, "fp8") == 2 * 80 * 2 * 128
    assert Model.load("llama-3.1-70b").kv_bytes_per_token(16) == 2 * 80 * 1 * 128 * 2


@pytest.mark.parametrize(
    ("name", "ranks", "rule"),
    [
        ("llama-3.1-8b", 3, "tensor_parallel must divide the 32 heads of 'llama-3.1-8b', was 3"),
        ("qwen2.5-7b", 8, "tensor_parallel must divide the 28 heads"),
        ("llama-3.1-8b", 0, "tensor_parallel must be a whole number of at least 1, was 0"),
        ("qwen2.5-32b", 5, "the 27648 intermediate_size"),
    ],
)
def test_a_split_that_vllm_refuses_is_refused(name: str, ranks: int, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        Model.load(name).weight_bytes(ranks)


def test_an_unknown_name_says_what_is_close() -> None:
    with pytest.raises(ConfigError, match=r"there is no model 'llama3.1-8b'; close to it: llama-3.1-8b"):
        Model.load("llama3.1-8b")


@pytest.mark.parametrize("name", model_names())
def test_it_survives_toml(name: str) -> None:
    model = Model.load(name)
    assert Model.from_toml(model.to_toml()) == model


def test_a_hugging_face_config_gives_the_catalogs_model(tmp_path: Path) -> None:
    folder = tmp_path / "llama-3.1-8b"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    for source in (folder, folder / "config.json", str(folder)):
        assert Model.from_hf_config(source) == Model.load("llama-3.1-8b")
    assert replace(Model.from_hf_config(LLAMA), name="llama-3.1-8b") == Model.load("llama-3.1-8b")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model_type": "qwen2"}, {"qkv_bias": True}),
        ({"model_type": "qwen3", "head_dim": 256}, {"qk_norm": True, "head_dim": 256}),
        ({"attention_bias": True}, {"qkv_bias": True}),
        ({"num_key_value_heads": None}, {"kv_heads": 32}),
        ({"tie_word_embeddings": True}, {"tied_embeddings": True}),
        ({"torch_dtype": None, "dtype": "float16"}, {"dtype": "float16"}),
        ({"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}, {"qkv_bias": True}),
        ({"model_type": "mistral", "sliding_window": None}, {}),
        (
            {"model_type": "mistral", "sliding_window": 4096},
            {"sliding_window": 4096, "sliding_layers": 32},
        ),
        (
            {
                "model_type": "qwen2",
                "sliding_window": 4096,
                "use_sliding_window": True,
                "max_window_layers": 28,
            },
            {"qkv_bias": True, "sliding_window": 4096, "sliding_layers": 4},
        ),
    ],
)
def test_families_differ_as_their_code_does(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    model = Model.from_hf_config(LLAMA | changes, name="x")
    assert model == replace(Model.load("llama-3.1-8b"), name="x", **expected)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"model_type": "gpt2"}, "model_type of the config must be one of llama, .* was 'gpt2'"),
        ({"quantization_config": {"bits": 4}}, "must not have a quantization_config"),
        ({"vocab_size": None}, "the config lacks 'vocab_size'"),
        ({"hidden_size": "4096"}, "hidden_size of the config must be a whole number"),
        ({"num_key_value_heads": 5}, "heads of model 'custom' must be a multiple of its 5 kv_heads, was 32"),
        (
            {"torch_dtype": "float32"},
            "dtype of model 'custom' must be one of bfloat16, float16, was 'float32'",
        ),
    ],
)
def test_what_is_not_modelled_is_refused(changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        Model.from_hf_config(LLAMA | changes)


def test_an_unreadable_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must be a readable Hugging Face config.json"):
        Model.from_hf_config(tmp_path)
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(ConfigError, match="must hold a JSON object, was a list"):
        Model.from_hf_config(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"must be a readable Hugging Face config.json"):
        Model.from_hf_config(tmp_path)
