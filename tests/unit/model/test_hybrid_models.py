"""Models with layers that keep a state of constant size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline.errors import ConfigError
from paceline.model import Model, Recurrent, stages

QWEN = Model.load("qwen3-next-80b-a3b")
NEMOTRON = Model.load("nemotron-h-8b")
NANO = Model.load("nemotron-nano-9b-v2")

# config.json of Qwen/Qwen3-Next-80B-A3B-Instruct, as far as it is read.
QWEN_CONFIG: dict[str, Any] = {
    "model_type": "qwen3_next",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "intermediate_size": 5120,
    "vocab_size": 151936,
    "max_position_embeddings": 262144,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_value_head_dim": 128,
}
# config.json of nvidia/Nemotron-H-8B-Base-8K, as far as it is read.
NEMOTRON_CONFIG: dict[str, Any] = {
    "model_type": "nemotron_h",
    "hidden_size": 4096,
    "num_hidden_layers": 52,
    "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "attention_head_dim": 128,
    "intermediate_size": 21504,
    "vocab_size": 131072,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "ssm_state_size": 128,
    "n_groups": 8,
    "conv_kernel": 4,
    "chunk_size": 128,
    "use_conv_bias": True,
    "mamba_ssm_cache_dtype": "float32",
}


def test_parameters_are_those_of_the_checkpoints() -> None:
    # The safetensors have 81,324,862,720 with the layer that predicts a second token: attention, experts and
    # norms of one layer more, the projection of two hidden states, and three norms.
    attention = 2048 * (2 * 16 * 256 + 2 * 2 * 256) + 16 * 256 * 2048 + 2 * 256
    mixture = (512 + 1) * 3 * 2048 * 512 + 2048 * 512 + 2048
    second = attention + mixture + 2 * 2048 + 2 * 2048 * 2048 + 3 * 2048
    assert QWEN.parameters + second == 81_324_862_720
    assert NANO.parameters == 8_888_227_328  # the safetensors of NVIDIA-Nemotron-Nano-9B-v2


def test_active_parameters_leave_out_idle_experts() -> None:
    # 3,874,929,408 by the headers of the safetensors, with the embedding, of which a token reads a row.
    assert QWEN.active_parameters + 151936 * 2048 == 3_874_929_408


@pytest.mark.parametrize(
    ("model", "attention", "states", "mlps", "sublayers"),
    [(QWEN, 12, 36, 0, 96), (NEMOTRON, 4, 24, 24, 52), (NANO, 4, 27, 25, 56)],
)
def test_layers_are_of_three_kinds(
    model: Model, attention: int, states: int, mlps: int, sublayers: int
) -> None:
    assert model.recurrent is not None
    assert (model.attention_layers, model.recurrent.layers, model.dense_layers) == (attention, states, mlps)
    assert model.mixers == attention + states
    assert model.sublayers == sublayers


def test_only_attention_keeps_keys_and_values_and_states_are_constant() -> None:
    assert QWEN.kv_bytes_per_token() == 12 * 2 * 2 * 256 * 2
    # 32 matrices of 128 x 128, and three tokens of 2 * 2,048 + 4,096 channels, in 16 bits.
    assert QWEN.state_layer_bytes() == 32 * 128 * 128 * 2 + 3 * 8192 * 2
    assert QWEN.state_bytes() == 36 * QWEN.state_layer_bytes()
    assert QWEN.state_bytes(2) * 2 == QWEN.state_bytes()
    # 128 matrices of 128 x 64 in 32 bits, and three tokens of 8,192 + 2 * 8 * 128 channels in 16.
    assert NEMOTRON.state_layer_bytes() == 128 * 128 * 64 * 4 + 3 * 10240 * 2
    assert Model.load("llama-3.1-8b").state_bytes() == 0


def test_configs_are_read() -> None:
    assert Model.from_hf_config(QWEN_CONFIG, name=QWEN.name) == QWEN
    assert Model.from_hf_config(NEMOTRON_CONFIG, name=NEMOTRON.name) == NEMOTRON
    kinds = (["linear_attention"] * 3 + ["full_attention"]) * 12
    listed = {**QWEN_CONFIG, "layer_types": kinds}
    del listed["full_attention_interval"]
    assert Model.from_hf_config(listed, name=QWEN.name) == QWEN


@pytest.mark.parametrize("model", [QWEN, NEMOTRON, NANO])
def test_it_survives_toml(model: Model) -> None:
    assert Model.from_toml(model.to_toml()) == model


@pytest.mark.parametrize(
    ("config", "rule"),
    [
        (NEMOTRON_CONFIG | {"num_hidden_layers": 51}, "must name its 51 layers, named 52"),
        (
            NEMOTRON_CONFIG | {"hybrid_override_pattern": "ME" * 26},
            "hybrid_override_pattern of the config must name mamba, attention, mlp alone, was 'E' at layer 1",
        ),
        (NEMOTRON_CONFIG | {"mlp_bias": True}, "mlp_bias of the config must be false"),
        (NEMOTRON_CONFIG | {"n_groups": None}, "lacks 'n_groups' or 'mamba_num_groups'"),
        (QWEN_CONFIG | {"layer_types": ["full_attention"] * 3}, "must name its 48 layers, named 3"),
        (QWEN_CONFIG | {"layer_types": ["rwkv"] * 48}, "must name linear_attention, full_attention alone"),
        (QWEN_CONFIG | {"full_attention_interval": 100}, "must leave one for attention beside 48 recurrent"),
        (QWEN_CONFIG | {"linear_num_key_heads": 12}, "value_heads of Recurrent must be a multiple of its 12"),
    ],
)
def test_what_is_not_modelled_is_refused(config: dict[str, Any], rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        Model.from_hf_config(config)


def test_combinations_that_are_not_modelled_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"sliding_window of model .* beside recurrent layers"):
        replace(QWEN, sliding_window=128, sliding_layers=2)
    with pytest.raises(ConfigError, match=r"mlp_layers of model .* where there are experts, was 3"):
        replace(QWEN, mlp_layers=3)
    with pytest.raises(ConfigError, match="must be at least its 38 with attention, was 10"):
        replace(QWEN, recurrent=replace(QWEN.recurrent, layers=10))  # type: ignore[type-var]
    with pytest.raises(ConfigError, match="pipeline_parallel of 'qwen3-next-80b-a3b' must be 1, was 2"):
        stages(QWEN, 2)
    with pytest.raises(ConfigError, match="tensor_parallel must divide the 8 key_heads of 'nemotron-h-8b'"):
        NEMOTRON.weight_bytes(16)
    with pytest.raises(ConfigError, match="kind of Recurrent must be one of gated_delta_net, mamba2"):
        Recurrent(kind="rwkv", layers=1, key_heads=1, value_heads=1, key_dim=1, value_dim=1, conv_kernel=1)
