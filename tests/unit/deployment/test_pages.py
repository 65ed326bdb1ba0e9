"""Blocks of hybrid models, against what vLLM logged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline import Affine, Cluster, Instance, Trace, policies, replay
from paceline.deployment.pages import pages_of
from paceline.errors import ConfigError
from paceline.model import Model
from paceline.policy import Swap

QWEN = Model.load("qwen3-next-80b-a3b")
NANO = Model.load("nemotron-nano-9b-v2")


def test_blocks_are_those_that_vllm_logs() -> None:
    # vLLM 0.10.2 of Qwen3-Next-80B-A3B-Instruct on two H200, a log in a public repository: "Setting attention
    # block size to 544 tokens", "Padding mamba page size by 1.49%", "Available KV cache memory: 44.59 GiB",
    # "GPU KV cache size: 973,760 tokens", "Maximum concurrency for 262,144 tokens per request: 14.77x".
    pages = pages_of(QWEN, tensor_parallel=2)
    assert pages.block_tokens == 544
    page = pages.block_bytes // 12
    assert page / QWEN.state_layer_bytes(2) - 1 == pytest.approx(0.0149, abs=5e-5)
    blocks = int(44.59 * 2**30) // pages.block_bytes
    groups = 1 + pages.state_blocks
    assert blocks // groups * pages.block_tokens == 973_760
    per_request = -(-262_144 // 544) + pages.state_blocks
    assert blocks / per_request == pytest.approx(14.77, abs=0.005)


def test_states_of_16_bits_have_the_blocks_of_2025() -> None:
    # vllm-project/vllm issue 24280: 672 tokens for NVIDIA-Nemotron-Nano-9B-v2, when states were of 16 bits.
    assert NANO.recurrent is not None
    older = replace(NANO, recurrent=replace(NANO.recurrent, state_dtype="auto"))
    assert pages_of(older).block_tokens == 672
    # 27 layers in groups of 4 as many as have attention: the seventh has one layer less.
    assert pages_of(older).state_blocks == 7


def test_block_tokens_are_the_least_and_a_little_more_states_than_attention_are_one_group() -> None:
    assert pages_of(QWEN, block_tokens=1024).block_tokens == 1024
    assert QWEN.recurrent is not None
    few = replace(QWEN, layers=22, recurrent=replace(QWEN.recurrent, layers=12))
    even = pages_of(few)
    assert (even.state_blocks, even.block_bytes) == (1, 12 * 544 * 2048)
    assert pages_of(Model.load("llama-3.1-8b")).state_blocks == 0


def test_an_instance_sends_the_engine_blocks_and_bytes_of_states() -> None:
    wire = Instance(model=QWEN, gpu="h200", tensor_parallel=2).to_wire()
    assert (wire["block_tokens"], wire["state_blocks"]) == (544, 3)
    assert wire["state_bytes"] == 2 * QWEN.state_bytes(2) == QWEN.state_bytes()
    assert wire["kv_layers"] == 48
    assert "state_blocks" not in Instance(model="llama-3.1-8b", gpu="h100-sxm").to_wire()


def test_weights_take_what_vllm_logs() -> None:
    # The same log: "Model loading took 74.2812 GiB" on each rank; the rest of it are buffers.
    assert QWEN.weight_bytes(2) / 2**30 == pytest.approx(74.2812, rel=1e-3)


def instance(blocks: int) -> Instance:
    # The GPU gives the memory's rule alone: the cost is a line.
    return Instance(
        model=QWEN,
        gpu="h200",
        tensor_parallel=2,
        num_blocks=blocks + 1,
        cost=Affine(step_s=1.0),
        max_model_len="auto",
    )


def test_requests_wait_for_the_blocks_of_their_states() -> None:
    # Each holds a block of tokens and three of states: of nine blocks, two requests run, and the third waits
    # until they have ended. With attention alone, all three would run at once.
    trace = Trace.from_columns(arrival=[0.0] * 3, prompt_tokens=[100] * 3, output_tokens=[3] * 3)
    requests = replay(trace, Cluster([instance(9)])).requests
    assert requests["ttft"].to_list() == [1.0, 1.0, 4.0]
    alone = Instance(cost=Affine(step_s=1.0), num_blocks=10, block_tokens=544)
    assert replay(trace, Cluster([alone])).requests["ttft"].to_list() == [1.0] * 3


def test_a_sequence_must_fit_beside_its_states() -> None:
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[544], output_tokens=[3])
    fits = [replay(trace, Cluster([instance(blocks)])).requests["reason"].item() for blocks in (5, 4)]
    assert fits[0] is None
    assert fits[1] == "sequence longer than max_model_len"  # "auto" is one block of tokens
    with pytest.raises(
        ConfigError, match="4 usable blocks of 544 tokens hold beside 3 of states, was 262144"
    ):
        replace(instance(4), max_model_len=None)


def test_a_prefix_cache_is_refused() -> None:
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[100], output_tokens=[3])
    with pytest.raises(ConfigError, match=r"prefix_cache of the scheduler on instance 0 must be None"):
        replay(trace, Cluster([instance(100)]), policies.vllm(prefix_caching=True))


def test_a_swap_copies_whole_blocks() -> None:
    swap = Swap.over_pcie(cpu_gib=1).on(instance(9))
    assert swap.cpu_blocks == 2**30 // (12 * 544 * 1024)


def test_the_engine_refuses_it_too() -> None:
    from paceline import _native

    scheduler = policies.vllm(prefix_caching=True).scheduler_of(0).to_wire(num_blocks=9, defaults=(2048, 256))
    wire = {**instance(9).to_wire(), "scheduler": scheduler}
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[100], output_tokens=[3])
    with pytest.raises(ConfigError, match=r"state_blocks.* must be 0 where prefixes are cached, was 3"):
        _native.run([wire], _native.columns(trace, policies.vllm()), routing="round_robin")
