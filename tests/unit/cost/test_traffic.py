"""Bytes, FLOPs and joules of replays, against counts done by hand."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paceline
from paceline.cost import Affine, Coverage, Energy, Roofline
from paceline.cost.traffic import traffic_wire
from paceline.hardware import Gpu, gpu_names
from paceline.model import Experts, Model, model_names
from paceline.policies import layered_prefill, vllm, vllm_v0
from paceline.policy.stages import Groups, Swap
from paceline.testing.strategies import policies, traces

FLAT = Affine(step_s=0.01)
LLAMA = Model.load("llama-3.1-8b")
QWEN = Model.load("qwen3-30b-a3b")
H100 = Gpu.load("h100-sxm")
TINY = Model(
    name="tiny",
    layers=4,
    hidden_size=64,
    heads=4,
    kv_heads=2,
    head_dim=16,
    intermediate_size=128,
    vocab_size=1000,
    tied_embeddings=False,
    max_positions=512,
    sliding_window=8,
    sliding_layers=2,
    experts=Experts(count=8, per_token=2, intermediate_size=32),
)


def totals(
    prompts: list[int], outputs: list[int], policy: paceline.Policy | None = None, **fields: Any
) -> dict[str, Any]:
    """Replay requests that arrive at once."""
    trace = paceline.Trace.from_columns(
        arrival=[0.0] * len(prompts), prompt_tokens=prompts, output_tokens=outputs
    )
    instance = paceline.Instance(**{"cost": FLAT, "num_blocks": 100_000, **fields})
    return paceline.replay(trace, paceline.Cluster([instance]), policy).totals().to_dict()


def of_last_step(prompt: int, **fields: Any) -> dict[str, int]:
    """Return what a decode of a lone request does whose context is then ``prompt + 1`` tokens."""
    one, two = (totals([prompt], [output], **fields) for output in (1, 2))
    return {name: two[name] - one[name] for name in two if name.endswith("bytes") or name == "flops"}


def test_a_dense_decode_reads_every_weight_but_the_embedding() -> None:
    assert of_last_step(99, model=LLAMA)["weight_bytes"] == 2 * (LLAMA.parameters - 128256 * 4096)


def test_a_dense_decode_reads_its_context_and_writes_a_token() -> None:
    moved = of_last_step(99, model=LLAMA)
    # Key and value of 8 heads of 128, 2 bytes each, in 32 layers.
    assert moved["kv_read_bytes"] == 100 * 2 * 8 * 128 * 2 * 32
    assert moved["kv_written_bytes"] == 2 * 8 * 128 * 2 * 32


def test_a_dense_decode_multiplies_twice_by_every_matrix() -> None:
    matrices = 32 * (4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14336) + 128256 * 4096
    attention = 100 * 2 * 2 * 32 * 128 * 32
    assert of_last_step(99, model=LLAMA)["flops"] == 2 * matrices + attention


def test_each_chunk_of_a_prompt_reads_the_weights_and_the_chunks_before() -> None:
    whole, cut = (
        totals([1000], [1], vllm(max_num_batched_tokens=tokens), model=LLAMA) for tokens in (8192, 250)
    )
    layers = 2 * (LLAMA.parameters - 2 * 128256 * 4096)
    assert cut["weight_bytes"] - whole["weight_bytes"] == 3 * layers
    assert (cut["kv_read_bytes"], whole["kv_read_bytes"]) == (2500 * 131072, 1000 * 131072)
    assert cut["flops"] == whole["flops"]
    assert cut["kv_written_bytes"] == whole["kv_written_bytes"] == 1000 * 131072


def test_a_tokens_experts_are_those_that_it_is_routed_to() -> None:
    moved = of_last_step(99, model=QWEN)
    # 8 experts of three matrices 2048 x 768, 2 bytes each, in 48 layers.
    assert moved["expert_bytes"] == 8 * 3 * 2048 * 768 * 2 * 48
    assert moved["weight_bytes"] + 128 * 3 * 2048 * 768 * 2 * 48 == QWEN.weight_bytes() - 151936 * 2048 * 2


@pytest.mark.parametrize("tokens", [2, 7, 40])
def test_a_batch_reads_the_experts_that_uniform_routing_hits(tokens: int) -> None:
    expected = 128 * (1 - (1 - 8 / 128) ** tokens) * 3 * 2048 * 768 * 2 * 48
    assert totals([tokens], [1], model=QWEN)["expert_bytes"] == pytest.approx(expected, rel=1e-6)


def test_a_measured_curve_takes_the_place_of_uniform_routing() -> None:
    cost = Roofline(coverage=Coverage.load("qwen3-30b-a3b-sharegpt"))
    measured = totals([32], [1], model=QWEN, gpu=H100, cost=cost)["expert_bytes"]
    assert measured == pytest.approx(0.547 * 128 * 3 * 2048 * 768 * 2 * 48, rel=1e-6)


def test_experts_of_4_bits_are_a_quarter_and_their_scales() -> None:
    moved = of_last_step(50, model="gpt-oss-20b")
    matrices, biases = 3 * 2880 * 2880, 2 * 2880 + 2880
    assert moved["expert_bytes"] == 4 * 24 * (matrices * (4 + 8 / 32) / 8 + 2 * biases)


def test_layers_with_a_window_read_no_more_than_it_holds() -> None:
    moved = of_last_step(999, model="gpt-oss-20b")
    # 12 of 24 layers see the last 128 tokens; 8 heads of 64.
    assert moved["kv_read_bytes"] == (12 * 1000 + 12 * 128) * 2 * 8 * 64 * 2


def test_latent_attention_reads_one_compressed_vector_a_token() -> None:
    moved = of_last_step(999, model="deepseek-v3")
    assert moved["kv_read_bytes"] == 1000 * (512 + 64) * 2 * 61


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_read_the_model_once_between_them_and_reduce_in_rings(ranks: int) -> None:
    one, many = (of_last_step(99, model=LLAMA, tensor_parallel=n) for n in (1, ranks))
    norms = 65 * 4096 * 2
    assert many["weight_bytes"] - one["weight_bytes"] == (ranks - 1) * norms  # every rank has them
    assert (many["kv_read_bytes"], many["flops"]) == (one["kv_read_bytes"], one["flops"])
    # Two all-reduces a layer and the embedding's, of 4,096 numbers, and a row of logits gathered.
    reduced = 65 * 4096 * 2 * 2 * (ranks - 1)
    assert many["link_bytes"] == reduced + 128256 * 2 * (ranks - 1) // ranks
    assert one["link_bytes"] == 0


def test_layered_prefill_reads_a_prompts_experts_once_and_all_weights_once_a_step() -> None:
    whole = totals([4000], [1], vllm(max_num_batched_tokens=8192), model=QWEN)
    layered = totals(
        [4000], [1], layered_prefill(layers=48, groups=Groups(tokens_per_group=500, most=8)), model=QWEN
    )
    assert layered["steps"] == 8
    # No decode runs, so the other layers have nothing to do.
    moved = [name for name in whole if name.endswith("bytes") or name == "flops"]
    assert {name: layered[name] for name in moved} == {name: whole[name] for name in moved}


def test_swapped_blocks_cross_the_memory_out_and_back() -> None:
    swapping = totals(
        [60, 60],
        [60, 60],
        vllm_v0(preemption=Swap(cpu_blocks=100)),
        model=TINY,
        num_blocks=11,
        max_model_len="auto",
    )
    moved = swapping["swapped_out_blocks"] + swapping["swapped_in_blocks"]
    assert moved > 0
    assert swapping["swap_bytes"] == moved * 16 * 2 * 2 * 16 * 2 * 4


def test_energy_is_static_power_over_time_and_that_of_the_work() -> None:
    energy = Energy(idle_w=100, busy_w=50, hbm_j_per_byte=30e-12, j_per_flop=1e-12, link_j_per_byte=40e-12)
    found = totals([500], [20], model=LLAMA, gpu=replace(H100, energy=energy), tensor_parallel=2)
    work = 30e-12 * found["hbm_bytes"] + 1e-12 * found["flops"] + 40e-12 * found["link_bytes"]
    assert found["simulated_s"] == pytest.approx(0.2)
    assert found["energy_j"] == pytest.approx(2 * (100 + 50) * 0.2 + work, rel=1e-12)
    assert found["energy_per_token_j"] == pytest.approx(found["energy_j"] / 520)
    assert found["energy_per_request_j"] == found["energy_j"]


def test_what_is_not_known_is_none_and_not_nothing() -> None:
    bare = totals([10], [2])
    assert {bare[name] for name in ("hbm_bytes", "expert_bytes", "flops", "energy_j")} == {None}
    without_gpu = totals([10], [2], model=LLAMA)
    assert without_gpu["hbm_bytes"] > 0
    assert (without_gpu["energy_j"], without_gpu["energy_per_token_j"]) == (None, None)


def test_one_instance_that_is_not_known_leaves_the_whole_unknown() -> None:
    trace = paceline.Trace.from_columns(arrival=[0.0, 0.0], prompt_tokens=[9, 9], output_tokens=[2, 2])
    known = paceline.Instance(model=LLAMA, cost=FLAT, num_blocks=100, max_model_len="auto")
    cluster = paceline.Cluster([known, replace(known, model=None)])
    result = paceline.replay(trace, cluster)
    assert result.totals().hbm_bytes is None
    assert [row is None for row in result.instances["hbm_bytes"]] == [False, True]


def test_it_survives_saving(tmp_path: Path) -> None:
    trace = paceline.Trace.from_columns(arrival=[0.0], prompt_tokens=[900], output_tokens=[9])
    instance = paceline.Instance(model=QWEN, gpu=H100, tensor_parallel=2)
    result = paceline.replay(trace, paceline.Cluster([instance]))
    assert result.totals().energy_j is not None
    assert paceline.load_result(result.save(tmp_path / "run")).totals() == result.totals()


@pytest.mark.parametrize("name", model_names())
def test_a_large_batch_reads_the_whole_checkpoint_but_the_embedding(name: str) -> None:
    model = Model.load(name)
    wire = traffic_wire(model)
    read = wire["weights"] + (0 if model.tied_embeddings else wire["head"])
    if wire["experts"] is not None:
        read += wire["experts"]["bytes"] * wire["experts"]["loads"][-1][1] / 2**20
    stored = model.weight_bytes() - model.vocab_size * model.hidden_size * 2
    assert read == pytest.approx(stored, abs=100 + 2 * model.vocab_size * model.lm_head_bias)


@pytest.mark.parametrize("name", gpu_names())
def test_every_gpu_of_the_catalog_burns_no_more_than_its_limit(name: str) -> None:
    gpu = Gpu.load(name)
    assert gpu.energy is not None
    assert gpu.energy.source
    assert gpu.efficiency is not None
    streaming = gpu.energy.hbm_j_per_byte * gpu.bandwidth_bytes_per_s * gpu.efficiency.memory
    multiplying = gpu.energy.j_per_flop * gpu.bf16_flop_per_s * gpu.efficiency.matmul
    assert gpu.energy.idle_w + streaming < gpu.tdp_w
    assert gpu.energy.idle_w + multiplying == pytest.approx(gpu.tdp_w, rel=0.01)


@settings(max_examples=60)
@given(traces(), policies(), st.sampled_from([10, 40, 200]), st.none() | st.floats(0, 1))
def test_leaping_changes_no_byte(
    trace: paceline.Trace, policy: paceline.Policy, blocks: int, until: float | None
) -> None:
    model = replace(TINY, layers=24)
    instance = paceline.Instance(
        model=model, gpu=H100, cost=Affine(step_s=0.01, token_s=0.001), block_tokens=4,
        num_blocks=blocks, max_model_len="auto", tensor_parallel=2,
    )  # fmt: skip
    cluster = paceline.Cluster([instance])
    leapt, stepped = (
        paceline.replay(trace, cluster, policy, until=until, leap=leap) for leap in (True, False)
    )
    assert [dataclasses.asdict(of) for of in leapt.stats.instances] == [
        dataclasses.asdict(of) for of in stepped.stats.instances
    ]
