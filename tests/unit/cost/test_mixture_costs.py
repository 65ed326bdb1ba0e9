"""Coefficients of models with experts, latent attention and windows, against arithmetic done by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline.cost import Coverage, Efficiency, Roofline
from paceline.errors import ConfigError
from paceline.hardware import Gpu, KernelEfficiency
from paceline.model import Model, model_names
from unit.cost.reference import decode, decode_attention_ticks, prefill, prefill_attention_ticks, step_ticks

PERFECT = Efficiency(
    memory=1.0, matmul=1.0, attention_memory=1.0, attention_matmul=1.0, layer_s=0.0, step_s=0.0
)
H100 = Gpu.load("h100-sxm")
QWEN = Model.load("qwen3-30b-a3b")
GPT = Model.load("gpt-oss-20b")
DEEPSEEK = Model.load("deepseek-v3")
MEASURED = Coverage.load("qwen3-30b-a3b-sharegpt")
MIXTURES = [name for name in model_names() if Model.load(name).experts is not None]
DENSE = [name for name in model_names() if name not in MIXTURES]


def wire(model: Model, *, ranks: int = 1, kv_dtype: str = "auto", **options: Any) -> dict[str, Any]:
    cost = Roofline(**{"efficiency": PERFECT, **options})
    return cost.to_wire(model, H100, tensor_parallel=ranks, kv_dtype=kv_dtype)


def read_s(cost: dict[str, Any], tokens: int) -> float:
    """Return seconds to read the experts of a batch."""
    return float(max(ticks for at, ticks in cost["experts"]["weights"] if at <= tokens)) / 1e12


def test_experts_of_a_measured_type_add_up_reading_and_multiplying() -> None:
    own = KernelEfficiency(memory=0.5, matmul=0.25, kernel_s=40e-6)
    before, after = wire(QWEN), wire(QWEN, efficiency=replace(PERFECT, experts_bfloat16=own))
    # 48 layers of 8 experts, each of three matrices of 2,048 x 768 in 16 bits: two FLOPs a weight and token.
    weights = 3 * 2048 * 768
    taken_s = 48 * (40e-6 + 8 * weights * 2 / (0.5 * 3.35e12))
    assert read_s(after, 1) == pytest.approx(taken_s, rel=1e-9)
    moved_s = 2 * before["experts"]["token_bytes"] / 1e12
    multiplied_s = 48 * 8 * 2 * weights / (0.25 * 989.4e12)
    assert after["experts"]["token_bytes"] / 1e12 == pytest.approx(moved_s + multiplied_s, rel=1e-4)
    assert after["experts"]["token_flops"] == 0
    assert after["linears"] == before["linears"]
    for other in ({"experts_fp8": own}, {"experts_bfloat16": own, "experts_memory": 1.0}):
        assert wire(QWEN, efficiency=replace(PERFECT, **other))["experts"] == before["experts"]


def test_a_type_of_weights_has_its_own_multiplications() -> None:
    narrow = KernelEfficiency(memory=0.5, matmul=0.25, kernel_s=7e-6)
    own = replace(PERFECT, matrix_s=4e-6, fp8=narrow)
    before, after = wire(DEEPSEEK), wire(DEEPSEEK, efficiency=own)
    # The router's and the head's weights have 16 bits, the others 8: query, key and value first.
    assert after["lm_head"]["weights"] - before["lm_head"]["weights"] == pytest.approx(4e6, abs=1)
    longer = after["linears"][0]["weights"] - 2 * before["linears"][0]["weights"]
    assert longer / 1e12 == pytest.approx(61 * 7e-6, rel=1e-6)
    assert after["linears"][0]["token_flops"] == pytest.approx(
        4 * before["linears"][0]["token_flops"], rel=1e-6
    )
    cost = Roofline(efficiency=own)
    assert Roofline.from_toml(cost.to_toml()) == cost


@pytest.mark.parametrize("name", DENSE)
def test_a_dense_model_has_no_expert_coefficients(name: str) -> None:
    cost = wire(Model.load(name))
    assert not {"experts", "windowed"} & set(cost)
    # A hybrid model has the two projections of its states besides.
    assert len(cost["linears"]) == (4 if Model.load(name).recurrent is None else 6)


@pytest.mark.parametrize("name", MIXTURES)
def test_a_large_batch_reads_the_whole_checkpoint(name: str) -> None:
    model = Model.load(name)
    cost = wire(model)
    weights = sum(linear["weights"] for linear in cost["linears"]) + cost["lm_head"]["weights"]
    read = (weights / 1e12 + read_s(cost, 10**6)) * 3.35e12
    # All but the embedding; norms and biases are 0.02% at most, or 0.2% for the experts' in gpt-oss-20b.
    stored = model.weight_bytes() - model.vocab_size * model.hidden_size * 2
    assert read == pytest.approx(stored, rel=2.5e-3 if "gpt" in name else 2e-4)


@pytest.mark.parametrize("name", MIXTURES)
def test_a_token_takes_two_flops_per_active_weight(name: str) -> None:
    model = replace(Model.load(name), weight_dtype="auto")  # 8-bit matrices run at another rate
    assert model.experts is not None
    model = replace(model, experts=replace(model.experts, router_dtype="auto"))  # and 32-bit routers
    cost = wire(model)
    linears = [*cost["linears"], cost["lm_head"], cost["experts"]]
    flops = sum(linear["token_flops"] for linear in linears) / 1e12 * 989.4e12
    assert flops == pytest.approx(2 * model.active_parameters, rel=1e-3)


def test_8_bit_matrices_run_at_the_8_bit_rate() -> None:
    narrow, wide = wire(DEEPSEEK), wire(replace(DEEPSEEK, weight_dtype="auto"))
    rate = 1978.9 / 989.4
    assert wide["experts"]["token_flops"] == pytest.approx(rate * narrow["experts"]["token_flops"], rel=1e-6)
    assert narrow["lm_head"] == wide["lm_head"]
    without = Roofline(efficiency=PERFECT).to_wire(DEEPSEEK, replace(H100, fp8_flop_per_s=None))
    assert without["experts"]["token_flops"] == wide["experts"]["token_flops"]


def test_4_bit_matrices_run_at_the_4_bit_rate() -> None:
    wide, narrow = (replace(DEEPSEEK, weight_dtype=dtype) for dtype in ("auto", "nvfp4"))
    gpu = replace(H100, fp4_flop_per_s=4 * H100.bf16_flop_per_s)
    quarter, same = (Roofline(efficiency=PERFECT).to_wire(narrow, of)["experts"] for of in (gpu, H100))
    assert same["token_flops"] == wire(wide)["experts"]["token_flops"]
    assert quarter["token_flops"] == pytest.approx(same["token_flops"] / 4, rel=1e-6)


def test_a_router_in_32_bits_is_twice_as_large_and_runs_at_the_rate_of_32_bits() -> None:
    assert QWEN.experts is not None
    wide = replace(QWEN, experts=replace(QWEN.experts, router_dtype="float32"))
    gpu = replace(H100, fp32_flop_per_s=H100.bf16_flop_per_s / 16)
    (*others, router), (*same, slow) = (
        Roofline(efficiency=PERFECT).to_wire(of, gpu)["linears"] for of in (QWEN, wide)
    )
    assert others == same
    assert slow["weights"] == pytest.approx(2 * router["weights"], rel=1e-3)
    assert slow["token_flops"] == pytest.approx(16 * router["token_flops"], rel=1e-3)
    # 48 layers of 2,048 x 128 numbers, of two bytes more.
    assert wide.weight_bytes() - QWEN.weight_bytes() == 2 * 48 * 2048 * 128
    unknown = Roofline(efficiency=PERFECT).to_wire(wide, replace(H100, fp32_flop_per_s=None))["linears"]
    assert unknown[-1]["token_flops"] == router["token_flops"]
    with pytest.raises(ConfigError, match="router_dtype of Experts must be auto or float32, was 'fp8'"):
        replace(QWEN.experts, router_dtype="fp8")


def test_norms_over_all_heads_reduce_two_numbers_a_token_and_layer() -> None:
    before, after = (wire(replace(QWEN, qk_norm_whole=whole), ranks=2) for whole in (False, True))
    # 97 all-reduces of 2,048 numbers in 16 bits, and 48 of two in 32 bits.
    for one, other in zip(before["all_reduce"], after["all_reduce"], strict=True):
        assert other["fixed"] == pytest.approx(one["fixed"] * (97 + 48) / 97, abs=1)
        assert other["token"] == pytest.approx(one["token"] * (1 + 48 * 8 / (97 * 4096)), abs=2)
    with pytest.raises(ConfigError, match=r"qk_norm_whole of model .* must be false without qk_norm"):
        replace(DEEPSEEK, qk_norm_whole=True)


def test_one_token_reads_its_experts_and_all_tokens_all() -> None:
    cost = wire(QWEN)
    expert = 48 * 3 * 2048 * 768 * 2
    assert read_s(cost, 1) == pytest.approx(8 * expert / 3.35e12, rel=1e-9)
    assert read_s(cost, 10**6) == pytest.approx(128 * expert / 3.35e12, rel=1e-9)


def test_a_measured_curve_reads_what_it_says() -> None:
    cost = wire(QWEN, coverage=MEASURED)
    expert = 48 * 3 * 2048 * 768 * 2
    assert read_s(cost, 32) == pytest.approx(0.547 * 128 * expert / 3.35e12, rel=1e-9)


def test_4_bit_experts_read_four_and_a_quarter_bits() -> None:
    assert GPT.experts is not None
    wide = wire(replace(GPT, experts=replace(GPT.experts, dtype="bfloat16")))
    assert read_s(wire(GPT), 7) == pytest.approx(read_s(wide, 7) * 4.25 / 16, rel=1e-9)


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_share_experts_by_their_width(ranks: int) -> None:
    one, many = wire(QWEN), wire(QWEN, ranks=ranks)
    for tokens in (1, 17, 5000):
        assert read_s(many, tokens) == pytest.approx(read_s(one, tokens) / ranks, rel=1e-6)
    assert many["experts"]["token_flops"] == pytest.approx(one["experts"]["token_flops"] / ranks, abs=1)


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_with_whole_experts_wait_for_the_busiest(ranks: int) -> None:
    split, whole = wire(QWEN, ranks=ranks), wire(QWEN, ranks=ranks, expert_parallel=True)
    for tokens in (1, 17):
        assert read_s(split, tokens) < read_s(whole, tokens) < ranks * read_s(split, tokens)
    assert read_s(whole, 5000) == pytest.approx(read_s(split, 5000), rel=1e-6)
    assert whole["experts"]["token_flops"] == split["experts"]["token_flops"]
    assert whole["linears"] == split["linears"]


def test_experts_have_efficiencies_of_their_own() -> None:
    own = replace(PERFECT, experts_memory=0.5, experts_matmul=0.25)
    before, after = wire(QWEN), wire(QWEN, efficiency=own)
    assert read_s(after, 9) == pytest.approx(2 * read_s(before, 9), rel=1e-9)
    assert after["experts"]["token_flops"] == pytest.approx(4 * before["experts"]["token_flops"], rel=1e-6)
    assert after["linears"] == before["linears"]
    assert Roofline.from_toml(Roofline(efficiency=own).to_toml()) == Roofline(efficiency=own)


@pytest.mark.parametrize(("ranks", "kv_dtype"), [(1, "auto"), (8, "auto"), (8, "fp8")])
def test_latent_attention_reads_one_vector_a_token_on_every_rank(ranks: int, kv_dtype: str) -> None:
    cost = wire(DEEPSEEK, ranks=ranks, kv_dtype=kv_dtype)
    number = 1 if kv_dtype == "fp8" else 2
    assert cost["decode_attention"]["kv_bytes"] / 1e12 == pytest.approx(61 * 576 * number / 3.35e12, rel=1e-3)
    # A head multiplies with 576 numbers and weighs 512 of them.
    flops = 61 * 2 * 128 / ranks * (576 + 512)
    assert cost["decode_attention"]["kv_flops"] / 1e12 == pytest.approx(flops / 989.4e12, rel=1e-2)


def test_latent_prompts_are_multiplied_with_expanded_heads() -> None:
    ticks = prefill_attention_ticks(wire(DEEPSEEK), prefill(8192))
    flops = 8192 * 8193 / 2 * 61 * 2 * 128 * (192 + 128)
    assert ticks / 1e12 == pytest.approx(flops / 989.4e12, rel=1e-4)


def test_decodes_past_the_window_read_no_more_in_those_layers() -> None:
    cost = wire(GPT)
    far, further = (decode_attention_ticks(cost, decode(4, kv)) for kv in (1_000, 9_000))
    full_layers = 4 * 8_000 * 12 * 2048  # 12 layers of 2 * 8 heads * 64 * 2 bytes
    assert (further - far) / 1e12 == pytest.approx(full_layers / 3.35e12, rel=1e-3)
    short, longer = (decode_attention_ticks(cost, decode(4, kv)) for kv in (28, 128))
    assert (longer - short) / 1e12 == pytest.approx(4 * 100 * 24 * 2048 / 3.35e12, rel=1e-3)


def test_long_prompts_pay_for_windows_by_the_token() -> None:
    ticks = prefill_attention_ticks(wire(GPT), prefill(16384))
    # 12 layers wait for arithmetic: 64 heads * 64 numbers, twice, 2 FLOPs, a pair. The 12 with a window wait
    # for memory: a token's query and output, its key and value twice, once more as context.
    full = 12 * 16384 * 16385 / 2 * 4 * 64 * 64 / 989.4e12
    windowed = 12 * 16384 * (2 * 64 * 64 * 2 + 3 * 2048) / 3.35e12
    assert ticks / 1e12 == pytest.approx(full + windowed, rel=1e-3)


def test_layered_prefill_reads_experts_once_where_chunks_read_them_again() -> None:
    """The paper's point: 8,192 tokens in 16 chunks load experts 16 times, in 16 groups of layers once."""
    cost = wire(QWEN, ranks=2)
    base = step_ticks(cost, decode(16, 4096))
    mixed = replace(decode(16, 4096), prefill_requests=1)
    chunks = groups = 0
    for part in range(16):
        before = prefill(512, 512 * part)
        chunk = replace(
            mixed, prefill_tokens=512, prefill_kv=before.prefill_kv, prefill_pairs=before.prefill_pairs
        )
        chunks += step_ticks(cost, chunk) - base
        whole = prefill(8192)
        group = replace(
            mixed,
            prefill_tokens=8192,
            prefill_kv=8192,
            prefill_pairs=whole.prefill_pairs,
            prefill_layers=3,
            layers=48,
        )
        groups += step_ticks(cost, group) - base
    together = step_ticks(cost, replace(group, prefill_layers=48)) - base
    assert groups == pytest.approx(together, rel=1e-9)
    assert chunks > 1.5 * groups


def test_chunks_and_groups_together_are_the_chunks_by_layers() -> None:
    cost = wire(QWEN)
    chunk = prefill(2048, 2048)
    parts = [step_ticks(cost, replace(chunk, prefill_layers=12, layers=48, sampled=0)) for _ in range(4)]
    assert sum(parts) == pytest.approx(step_ticks(cost, replace(chunk, sampled=0)), abs=8)


def test_what_belongs_to_mixtures_is_refused_for_others() -> None:
    llama = Model.load("llama-3.1-8b")
    with pytest.raises(ConfigError, match=r"coverage of a Roofline must be None for 'llama-3.1-8b'"):
        wire(llama, coverage=MEASURED)
    with pytest.raises(ConfigError, match=r"expert_ranks must divide the 0 experts of 'llama-3.1-8b'"):
        wire(llama, expert_parallel=True)
    with pytest.raises(ConfigError, match="for 'gpt-oss-20b' must start at its 4 of 32 experts a token"):
        wire(GPT, coverage=MEASURED)


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="coverage of a Roofline must be a Coverage, was 'uniform'"):
        Roofline(coverage="uniform")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="expert_parallel of a Roofline must be true or false, was 2"):
        Roofline(expert_parallel=2)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="experts_matmul of an Efficiency must be a number above 0"):
        replace(PERFECT, experts_matmul=0)


def test_it_survives_toml() -> None:
    cost = Roofline(coverage=MEASURED, expert_parallel=True)
    assert Roofline.from_toml(cost.to_toml()) == cost
