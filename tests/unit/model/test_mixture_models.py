"""Models with experts, latent attention and sliding windows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline.errors import ConfigError
from paceline.model import Experts, Latent, Model

MIXTURE = Model.load("qwen3-30b-a3b")
GPT = Model.load("gpt-oss-20b")
DEEPSEEK = Model.load("deepseek-v3")

QWEN_CONFIG: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "num_hidden_layers": 48,
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "torch_dtype": "bfloat16",
    "attention_bias": False,
    "sliding_window": None,
    "use_sliding_window": False,
    "max_window_layers": 48,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
GPT_CONFIG: dict[str, Any] = {
    "model_type": "gpt_oss",
    "num_hidden_layers": 24,
    "hidden_size": 2880,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 2880,
    "vocab_size": 201088,
    "max_position_embeddings": 131072,
    "attention_bias": True,
    "sliding_window": 128,
    "layer_types": 12 * ["sliding_attention", "full_attention"],
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "experts_per_token": 4,
    "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
}
DEEPSEEK_CONFIG: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 61,
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "intermediate_size": 18432,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "torch_dtype": "bfloat16",
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "moe_layer_freq": 1,
    "first_k_dense_replace": 3,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
}
MIXTRAL_CONFIG: dict[str, Any] = {
    "model_type": "mixtral",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "torch_dtype": "bfloat16",
    "sliding_window": None,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}


@pytest.mark.parametrize(
    ("name", "billions", "embeddings", "digit"),
    [
        ("gpt-oss-20b", 3.61, 1, 0.005),  # Table 1 of the model card; "unembedding … but not embeddings"
        ("gpt-oss-120b", 5.13, 1, 0.005),
        ("deepseek-v3", 37, 1, 0.5),  # the report's abstract
        ("qwen3-30b-a3b", 3.3, 2, 0.06),  # model card, "3.3B activated"
        ("qwen3-235b-a22b", 22, 2, 0.5),  # model card, "22B activated"
        ("mixtral-8x7b", 12.9, 2, 0.05),  # arXiv:2401.04088, "13B"; mistral.ai, "12.9B parameters per token"
        ("phi-3.5-moe", 6.6, 2, 0.05),  # model card, "6.6B active parameters"
    ],
)
def test_active_parameters_are_the_published_ones(
    name: str, billions: float, embeddings: int, digit: float
) -> None:
    model = Model.load(name)
    counted = model.active_parameters + (embeddings - 1) * model.vocab_size * model.hidden_size
    assert counted / 1e9 == pytest.approx(billions, abs=digit)


def test_a_dense_model_is_active_but_for_its_embedding() -> None:
    model = Model.load("llama-3.1-8b")
    assert model.active_parameters == model.parameters - 128256 * 4096


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("qwen3-30b-a3b", QWEN_CONFIG),
        ("gpt-oss-20b", GPT_CONFIG),
        ("deepseek-v3", DEEPSEEK_CONFIG),
        ("mixtral-8x7b", MIXTRAL_CONFIG),
    ],
)
def test_a_hugging_face_config_gives_the_catalogs_model(name: str, config: dict[str, Any]) -> None:
    assert Model.from_hf_config(config, name=name) == Model.load(name)


def test_windows_without_layer_types_are_every_other_layer() -> None:
    config = {key: value for key, value in GPT_CONFIG.items() if key != "layer_types"}
    assert Model.from_hf_config(config, name="gpt-oss-20b") == GPT


@pytest.mark.parametrize(
    ("config", "changes", "rule"),
    [
        (QWEN_CONFIG, {"decoder_sparse_step": 2}, "decoder_sparse_step and moe_layer_freq of the config"),
        (QWEN_CONFIG, {"moe_intermediate_size": None}, "the config lacks 'moe_intermediate_size'"),
        (QWEN_CONFIG, {"num_experts_per_tok": 200}, "per_token of Experts must be at most their count 128"),
        (
            QWEN_CONFIG,
            {"quantization_config": {"quant_method": "awq"}},
            "must not have a quantization_config other than .* was 'awq'",
        ),
        (QWEN_CONFIG, {"quantization_config": {"quant_method": "mxfp4"}}, "was 'mxfp4'"),
        (DEEPSEEK_CONFIG, {"v_head_dim": None}, "the config lacks 'v_head_dim'"),
        (DEEPSEEK_CONFIG, {"first_k_dense_replace": 61}, "dense_layers of the experts .* below its 61"),
    ],
)
def test_what_is_not_modelled_is_refused(config: dict[str, Any], changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        Model.from_hf_config(config | changes)


def test_latent_attention_keeps_one_vector_on_every_rank() -> None:
    # 512 + 64 numbers in each of 61 layers: the 70.272 KB of arXiv:2505.09343, Table 1.
    assert DEEPSEEK.kv_bytes_per_token() == 61 * 576 * 2 == 70_272
    assert DEEPSEEK.kv_bytes_per_token(8) == 70_272
    assert DEEPSEEK.kv_bytes_per_token(8, "fp8") == 61 * 576


def test_grouped_queries_of_the_paper_take_48_and_up_to_48_kib() -> None:
    # Table 3 of the layered-prefill paper, on two ranks: 48 KB for Qwen.
    assert MIXTURE.kv_bytes_per_token(2) == 48 * 1024
    # gpt-oss-20b: 24 layers * 2 * 8 heads * 64 * 2 bytes; past the window half of them grow.
    assert 24 * GPT.kv_layer_bytes() == 48 * 1024
    assert GPT.kv_bytes_per_token() == 24 * 1024


def test_windows_in_all_layers_are_charged_as_whole_contexts() -> None:
    mistral = replace(Model.load("mistral-7b-v0.3"), sliding_window=4096, sliding_layers=32)
    assert mistral.kv_bytes_per_token() == Model.load("mistral-7b-v0.3").kv_bytes_per_token()
    assert mistral.window_layers == 0


def test_checkpoints_are_as_large_as_their_files() -> None:
    # "Checkpoint Size" in Table 1 of the gpt-oss model card: 12.8GiB and 60.8GiB.
    assert GPT.weight_bytes() / 2**30 == pytest.approx(12.8, abs=0.05)
    assert Model.load("gpt-oss-120b").weight_bytes() / 2**30 == pytest.approx(60.8, abs=0.05)
    assert MIXTURE.weight_bytes() == 2 * MIXTURE.parameters


def test_quantised_matrices_take_their_scales() -> None:
    experts = 58 * 256 * 3 * 7168 * 2048
    wide = replace(DEEPSEEK, weight_dtype="auto")
    assert DEEPSEEK.experts is not None
    narrow = replace(DEEPSEEK.experts, dtype="fp8")
    saved = wide.weight_bytes() - replace(wide, experts=narrow).weight_bytes()
    assert saved == pytest.approx(experts * (1 - 4 / 128**2), abs=1)


def test_attention_and_its_output_may_have_types_of_their_own() -> None:
    # 16 weights of NVFP4 are 8 bytes and a scale of one. Per layer: q_a, q_b, kv_a and kv_b; o_proj.
    before = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256
    output = 128 * 128 * 7168
    whole = replace(DEEPSEEK, weight_dtype="nvfp4")
    sixteen = replace(whole, attention_dtype="bfloat16")
    added = sixteen.weight_bytes() - whole.weight_bytes()
    assert added == pytest.approx(61 * (before + output) * (2 - 9 / 16), abs=2)
    four = replace(sixteen, output_dtype="nvfp4")
    assert four.weight_bytes() - whole.weight_bytes() == pytest.approx(61 * before * (2 - 9 / 16), abs=2)
    with pytest.raises(ConfigError, match=r"output_dtype of model .* must be one of auto, .* was 'mxfp4'"):
        replace(whole, output_dtype="mxfp4")


@pytest.mark.parametrize("name", ["qwen3-30b-a3b", "deepseek-v3", "mixtral-8x7b"])
def test_whole_experts_on_ranks_take_what_split_ones_do(name: str) -> None:
    model = Model.load(name)
    assert model.weight_bytes(4, expert_ranks=4) == model.weight_bytes(4)
    # Twice the ranks hold half of the experts, and as much of all else.
    experts = model.experts
    assert experts is not None
    layers = model.layers - experts.dense_layers
    routed = layers * experts.count * 3 * model.hidden_size * experts.intermediate_size
    number = (1 + 4 / 128**2) if name == "deepseek-v3" else 2
    fewer = model.weight_bytes(4) - model.weight_bytes(4, expert_ranks=8)
    assert fewer == pytest.approx(routed / 8 * number, abs=1)


@pytest.mark.parametrize(
    ("ranks", "expert_ranks", "rule"),
    [
        (1, 3, "expert_ranks must divide the 128 experts of 'qwen3-30b-a3b', was 3"),
        (64, None, "tensor_parallel must divide the 32 heads"),
        (1, 0, "expert_ranks must be a whole number of at least 1, was 0"),
    ],
)
def test_a_split_that_is_not_even_is_refused(ranks: int, expert_ranks: int | None, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        MIXTURE.weight_bytes(ranks, expert_ranks=expert_ranks)


def test_a_dense_model_has_no_experts_to_deal_out() -> None:
    with pytest.raises(ConfigError, match=r"expert_ranks must divide the 0 experts of 'llama-3.1-8b', was 2"):
        Model.load("llama-3.1-8b").weight_bytes(expert_ranks=2)


def test_parts_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="per_token of Experts must be at most their count 8, was 9"):
        Experts(count=8, per_token=9, intermediate_size=1)
    with pytest.raises(ConfigError, match=r"dtype of Experts must be auto or one of .* was 'int3'"):
        Experts(count=8, per_token=2, intermediate_size=1, dtype="int3")
    with pytest.raises(ConfigError, match="kv_rank of Latent must be a whole number of at least 1, was 0"):
        Latent(kv_rank=0, rope_dim=1, nope_dim=1, value_dim=1)
    with pytest.raises(
        ConfigError, match=r"sliding_window of model .* must be given with the sliding_layers"
    ):
        replace(MIXTURE, sliding_window=128)
    with pytest.raises(
        ConfigError, match=r"sliding_layers of model .* must be at most its 48 layers, was 49"
    ):
        replace(MIXTURE, sliding_window=128, sliding_layers=49)
    with pytest.raises(ConfigError, match=r"head_dim of model .* must be the 192 of its latent attention"):
        replace(DEEPSEEK, head_dim=128)
    with pytest.raises(ConfigError, match=r"experts of model .* must be a Experts or None, was 128"):
        replace(MIXTURE, experts=128)  # type: ignore[arg-type]
