"""KV blocks from memory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.deployment import kv_memory
from paceline.errors import ConfigError
from paceline.hardware import Gpu
from paceline.model import Model

LLAMA = Model.load("llama-3.1-8b")
RTX_4090 = Gpu.load("rtx-4090")


def test_the_parts_add_up_to_the_share_that_was_asked_for() -> None:
    memory = kv_memory(LLAMA, RTX_4090, gpu_memory_utilization=0.9)
    assert memory.requested_bytes == int(0.9 * 25_250_627_584)
    spent = memory.weight_bytes + memory.activation_bytes + memory.other_bytes
    assert 0 <= memory.requested_bytes - spent - memory.blocks * memory.block_bytes < memory.block_bytes


def test_a_measured_engines_blocks_are_met_within_four_per_cent(shared: Path) -> None:
    settings = json.loads((shared / "measured/rtx4090-llama-3.1-8b/engine.json").read_text())
    assert settings["hardware"]["device_total_memory_bytes"] == RTX_4090.memory_bytes
    memory = kv_memory(
        LLAMA,
        RTX_4090,
        gpu_memory_utilization=settings["kv_cache"]["gpu_memory_utilization"],
        max_num_batched_tokens=settings["engine_kwargs"]["max_num_batched_tokens"],
        max_num_seqs=settings["engine_kwargs"]["max_num_seqs"],
    )
    assert settings["kv_cache"]["num_gpu_blocks"] == 2588
    assert memory.blocks / 2588 - 1 == pytest.approx(0.030, abs=0.0005), "as the module's docstring states"


def test_the_dummy_run_peaks_in_the_widest_layer_or_in_the_sampler() -> None:
    few_rows = kv_memory(LLAMA, RTX_4090, max_num_batched_tokens=8192, max_num_seqs=1)
    assert few_rows.activation_bytes == 8192 * (2 * 4096 + 3 * 14336) * 2
    many_rows = kv_memory(LLAMA, RTX_4090, max_num_batched_tokens=2048, max_num_seqs=512)
    assert many_rows.activation_bytes == 2048 * 4096 * 2 + 512 * 128256 * 27


def test_no_more_rows_are_sampled_than_tokens_batched() -> None:
    both = [
        kv_memory(LLAMA, RTX_4090, max_num_batched_tokens=64, max_num_seqs=seqs).activation_bytes
        for seqs in (64, 4096)
    ]
    assert both[0] == both[1]


@given(
    st.floats(0.2, 1.0),
    st.integers(1, 16384),
    st.integers(1, 2048),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([8, 16, 32]),
)
def test_blocks_never_exceed_what_the_memory_holds(
    share: float, tokens: int, seqs: int, ranks: int, block: int
) -> None:
    memory = kv_memory(
        LLAMA,
        RTX_4090,
        tensor_parallel=ranks,
        block_tokens=block,
        gpu_memory_utilization=share,
        max_num_batched_tokens=tokens,
        max_num_seqs=seqs,
    )
    assert memory.block_bytes == block * LLAMA.kv_bytes_per_token(ranks)
    assert (
        memory.blocks == 0 or memory.weight_bytes + memory.blocks * memory.block_bytes < RTX_4090.memory_bytes
    )


def test_an_8_bit_cache_holds_twice_the_blocks() -> None:
    full, half = (kv_memory(LLAMA, RTX_4090, kv_dtype=dtype).blocks for dtype in ("auto", "fp8"))
    assert half // 2 == full


def test_a_model_that_does_not_fit_leaves_no_blocks() -> None:
    memory = kv_memory(Model.load("llama-3.1-70b"), RTX_4090)
    assert memory.kv_bytes < 0
    assert memory.blocks == 0


def test_values_out_of_range_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"gpu_memory_utilization must be a number above 0 and at most 1, was 1.1"
    ):
        kv_memory(LLAMA, RTX_4090, gpu_memory_utilization=1.1)
    with pytest.raises(ConfigError, match="block_tokens must be a whole number of at least 1, was 0"):
        kv_memory(LLAMA, RTX_4090, block_tokens=0)
    with pytest.raises(ConfigError, match="kv_dtype must be auto or one of"):
        kv_memory(replace(LLAMA, name="x"), RTX_4090, kv_dtype="int3")
