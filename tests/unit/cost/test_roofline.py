"""The coefficients that a model, a GPU and efficiencies come to, against arithmetic done by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline.cost import Affine, Efficiency, Roofline
from paceline.errors import ConfigError
from paceline.hardware import Gpu, gpu_names
from paceline.model import Model, model_names
from unit.cost.reference import decode, decode_attention_ticks, prefill, prefill_attention_ticks, step_ticks

PERFECT = Efficiency(
    memory=1.0, matmul=1.0, attention_memory=1.0, attention_matmul=1.0, layer_s=0.0, step_s=0.0
)
LLAMA = Model.load("llama-3.1-8b")
H100 = Gpu.load("h100-sxm")


def wire(efficiency: Efficiency | None = PERFECT, **options: Any) -> dict[str, Any]:
    return Roofline(efficiency=efficiency).to_wire(LLAMA, H100, **options)


def test_reading_all_weights_takes_their_bytes_over_the_bandwidth() -> None:
    cost = wire()
    read = sum(linear["weights"] for linear in cost["linears"]) + cost["lm_head"]["weights"]
    # All parameters but the embedding, of which a token reads one row, and 65 norms.
    matrices = LLAMA.parameters - 128256 * 4096 - 65 * 4096
    assert read / 1e12 == pytest.approx(matrices * 2 / 3.35e12, rel=1e-9)


def test_a_token_takes_two_flops_per_matrix_weight() -> None:
    flops = sum(linear["token_flops"] for linear in wire()["linears"])
    matrices = 32 * (4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14336)
    assert flops / 1e12 == pytest.approx(2 * matrices / 989.4e12, rel=1e-6)


def test_a_decode_reads_its_whole_context() -> None:
    cost = wire()
    longer, shorter = (decode_attention_ticks(cost, decode(1, kv)) for kv in (9_000, 1_000))
    # 2 (key and value) * 32 layers * 8 heads * 128 * 2 bytes = 131,072 bytes a token.
    assert (longer - shorter) / 1e12 == pytest.approx(8_000 * 131_072 / 3.35e12, rel=1e-4)


def test_an_8_bit_cache_halves_that() -> None:
    full, half = (wire(kv_dtype=dtype)["decode_attention"]["kv_bytes"] for dtype in ("auto", "fp8"))
    assert full == pytest.approx(2 * half, abs=1)


def test_a_long_prompts_attention_takes_the_flops_of_its_pairs() -> None:
    shape = prefill(8192)
    # 8192 * 8193 / 2 pairs, 2 products of 32 heads * 128 numbers, 2 FLOPs each, 32 layers.
    flops = 8192 * 8193 / 2 * 2 * 2 * 32 * 128 * 32
    assert prefill_attention_ticks(wire(), shape) / 1e12 == pytest.approx(flops / 989.4e12, rel=1e-5)


def test_the_fixed_point_keeps_a_pair_precise_on_eight_ranks() -> None:
    cost = Roofline(efficiency=PERFECT).to_wire(LLAMA, H100, tensor_parallel=8)
    seconds = 4 * 32 * 4096 / 8 / 989.4e12
    assert cost["prefill_attention"]["pair_flops"] / 2**20 / 1e12 == pytest.approx(seconds, rel=1e-7)


def test_efficiencies_divide_the_figures_they_name() -> None:
    half = replace(PERFECT, memory=0.5, matmul=0.25, attention_memory=0.2, attention_matmul=0.1)
    full, low = wire(), wire(half)
    for before, after in zip(full["linears"], low["linears"], strict=True):
        assert after["weights"] == pytest.approx(2 * before["weights"], rel=1e-6)
        assert after["token_flops"] == pytest.approx(4 * before["token_flops"], rel=1e-6)
    assert low["decode_attention"]["kv_bytes"] == pytest.approx(
        5 * full["decode_attention"]["kv_bytes"], rel=1e-4
    )
    pairs = "prefill_attention", "pair_flops"
    assert low[pairs[0]][pairs[1]] == pytest.approx(10 * full[pairs[0]][pairs[1]], rel=1e-6)


def test_constants_are_paid_per_step_layer_and_request() -> None:
    paid = replace(PERFECT, step_s=1e-3, layer_s=1e-5, attention_request_s=1e-7)
    extra = [step_ticks(wire(paid), decode(n, 100)) - step_ticks(wire(), decode(n, 100)) for n in (1, 11)]
    assert extra[0] == 10**9 + 32 * (10**7 + 10**5)
    assert extra[1] - extra[0] == 10 * 32 * 10**5


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_ranks_share_matrices_heads_and_cache(ranks: int) -> None:
    one, many = wire(), wire(tensor_parallel=ranks)
    for before, after in zip(one["linears"], many["linears"], strict=True):
        assert after["weights"] == pytest.approx(before["weights"] / ranks, rel=1e-6)
    assert many["decode_attention"]["kv_bytes"] == pytest.approx(
        one["decode_attention"]["kv_bytes"] / ranks, abs=1
    )


def test_ranks_beyond_the_kv_heads_repeat_them() -> None:
    wide = Roofline(efficiency=PERFECT).to_wire(LLAMA, H100, tensor_parallel=16)
    eight = Roofline(efficiency=PERFECT).to_wire(LLAMA, H100, tensor_parallel=8)
    assert wide["decode_attention"]["kv_bytes"] == eight["decode_attention"]["kv_bytes"]
    assert wide["linears"][1]["weights"] == pytest.approx(eight["linears"][1]["weights"] / 2, abs=1)


def test_a_single_rank_reduces_nothing() -> None:
    assert wire()["all_reduce"] == []


def test_a_ring_moves_each_byte_nearly_twice_and_one_shot_once_from_each_peer() -> None:
    efficiency = replace(PERFECT, ring_latency_s=40e-6, one_shot=0.5, one_shot_latency_s=9e-6)
    ring, one_shot, two_shot = wire(efficiency, tensor_parallel=4)["all_reduce"]
    reductions, message = 2 * 32 + 1, 4096 * 2
    assert ring["fixed"] == reductions * 40 * 10**6
    assert ring["token"] / 1e12 == pytest.approx(reductions * 1.5 * message / 450e9, rel=1e-6)
    assert one_shot["fixed"] == reductions * 9 * 10**6
    assert one_shot["token"] / 1e12 == pytest.approx(reductions * 3 * message / 225e9, rel=1e-6)
    assert two_shot["fixed"] == reductions * 18 * 10**6
    assert two_shot["token"] / 1e12 == pytest.approx(reductions * 1.5 * message / 225e9, rel=1e-6)


@pytest.mark.parametrize("model", model_names())
@pytest.mark.parametrize("gpu", gpu_names())
def test_every_pair_in_the_catalogs_behaves_like_a_server(model: str, gpu: str) -> None:
    cost = Roofline().to_wire(Model.load(model), Gpu.load(gpu))
    one, many = (step_ticks(cost, decode(n, 1000)) for n in (1, 64))
    assert one < many < 64 * one, "batching decodes pays"
    chunk, prompt = (step_ticks(cost, prefill(n)) for n in (512, 4096))
    assert prompt < 8 * chunk * 1.5
    assert step_ticks(cost, decode(1, 1000)) < chunk, "a decode is shorter than a chunk of prefill"


def test_a_gpu_of_ones_own_needs_efficiencies() -> None:
    gpu = replace(H100, name="mine", efficiency=None)
    with pytest.raises(ConfigError, match="GPU 'mine' has no efficiency"):
        Roofline().to_wire(LLAMA, gpu)
    assert Roofline(efficiency=PERFECT).to_wire(LLAMA, gpu) == wire()


@pytest.mark.parametrize("share", [0, -0.1, 1.01, float("nan"), "1"])
def test_a_share_out_of_range_is_refused(share: object) -> None:
    with pytest.raises(ConfigError, match="matmul of an Efficiency must be a number above 0 and at most 1"):
        replace(PERFECT, matmul=share)  # type: ignore[arg-type]


def test_it_survives_toml() -> None:
    for cost in (Roofline(), Roofline(efficiency=replace(PERFECT, memory=1 / 3, source="a line"))):
        assert Roofline.from_toml(cost.to_toml()) == cost
    with pytest.raises(ConfigError, match="kind of a cost must be roofline, was 'affine'"):
        Roofline.from_toml(Affine(step_s=1).to_toml())
    with pytest.raises(ConfigError, match="efficiency of a cost has no field 'memry'; close to it: memory"):
        Roofline.from_toml('kind = "roofline"\n[efficiency]\nmemry = 1.0')
