"""KV blocks of models with experts and with sliding windows."""

from __future__ import annotations

from paceline.deployment import kv_memory
from paceline.hardware import Gpu
from paceline.model import Model

H100 = Gpu.load("h100-sxm")
GPT = Model.load("gpt-oss-20b")


def test_windows_are_set_aside_for_every_sequence() -> None:
    memory = kv_memory(GPT, H100, max_num_seqs=256, max_num_batched_tokens=8192)
    # 128 tokens touch at most 9 blocks of 16; half of the 24 layers have a window, of 2 * 8 * 64 * 2 bytes.
    assert memory.window_bytes == (256 * 9 * 16 + 8192) * 12 * 2048
    assert memory.block_bytes == 16 * 12 * 2048
    spent = memory.weight_bytes + memory.activation_bytes + memory.other_bytes + memory.window_bytes
    left = memory.requested_bytes - spent - memory.blocks * memory.block_bytes
    assert 0 <= left < memory.block_bytes


def test_windows_hold_more_tokens_than_whole_contexts_would() -> None:
    memory = kv_memory(GPT, H100)
    whole = (memory.kv_bytes + memory.window_bytes) // (2 * memory.block_bytes)
    assert 1.8 * whole < memory.blocks < 2 * whole


def test_models_without_windows_set_nothing_aside() -> None:
    for name in ("llama-3.1-8b", "qwen3-30b-a3b"):
        assert kv_memory(Model.load(name), H100).window_bytes == 0


def test_experts_of_a_token_widen_the_dummy_run() -> None:
    model = Model.load("qwen3-30b-a3b")
    memory = kv_memory(model, H100, max_num_batched_tokens=8192, max_num_seqs=1)
    # Residual and hidden state; for each of 8 experts the larger of 2 * 768 and 2048, and 768.
    assert memory.activation_bytes == 8192 * (2 * 2048 + 8 * (2048 + 768)) * 2


def test_ranks_that_share_experts_have_room_for_more() -> None:
    model = Model.load("qwen3-30b-a3b")
    alone, shared = (kv_memory(model, H100, expert_ranks=ranks) for ranks in (None, 2))
    experts = 48 * 128 * 3 * 2048 * 768 * 2
    assert alone.weight_bytes - shared.weight_bytes == experts // 2
    assert shared.blocks > alone.blocks


def test_deepseek_fits_on_eight_h200_and_not_on_eight_h100() -> None:
    # 671 billion parameters, most of a byte: above 8 * 80 GB, well below 8 * 141 and 16 * 80.
    model = Model.load("deepseek-v3")
    assert kv_memory(model, Gpu.load("h200"), tensor_parallel=8).blocks > 10_000
    assert kv_memory(model, H100, tensor_parallel=8).blocks == 0
    assert kv_memory(model, H100, tensor_parallel=16).blocks > 10_000
