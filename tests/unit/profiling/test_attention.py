"""vLLM's attention kernels are called as the engine calls them, on stand-ins for PyTorch and its module."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from paceline.profiling.attention import PagedAttention
from paceline.profiling.work import Attention


class Numbers(np.ndarray):
    """An array with a tensor's way to convert."""

    def to(self, _: object) -> Numbers:
        return self


def numbers(values: object) -> Numbers:
    return np.asarray(values).view(Numbers)


TORCH = SimpleNamespace(
    int32="int32",
    tensor=lambda values, **_: numbers(values),
    randperm=lambda n, **_: numbers(np.random.default_rng(0).permutation(n)),
    empty_like=np.empty_like,
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    module = SimpleNamespace(
        is_fa_version_supported=lambda version: version == 3,
        get_scheduler_metadata=lambda **split: split,
        flash_attn_varlen_func=lambda **call: calls.append(call),
    )
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(vllm_flash_attn=module))
    monkeypatch.setitem(sys.modules, "vllm.vllm_flash_attn", module)
    return calls


def call(work: Attention) -> None:
    PagedAttention(TORCH, "cuda").call(work, lambda *shape: numbers(np.zeros(shape, dtype=np.float16)))()


def test_requests_decode_over_pages_in_any_order(asked: list[dict[str, Any]]) -> None:
    call(Attention(0, 0, 3, 40, heads=8, kv_heads=2, head_dim=64))
    (found,) = asked
    # Forty tokens are in three pages of 16; every page belongs to one request.
    assert found["q"].shape == (3, 8, 64)
    assert found["k"].shape == found["v"].shape == (9, 16, 2, 64)
    assert sorted(found["block_table"].ravel().tolist()) == list(range(9))
    assert found["block_table"].shape == (3, 3)
    assert found["cu_seqlens_q"].tolist() == [0, 1, 2, 3]
    assert found["seqused_k"].tolist() == [40, 40, 40]
    assert (found["max_seqlen_q"], found["max_seqlen_k"], found["causal"]) == (1, 40, True)
    # Steps of few tokens run in CUDA graphs, with up to 32 parts.
    assert found["num_splits"] == found["scheduler_metadata"]["num_splits"] == 32


def test_a_chunk_attends_to_its_history_and_itself(asked: list[dict[str, Any]]) -> None:
    call(Attention(1024, 96, 0, 0, heads=4, kv_heads=4, head_dim=32))
    (found,) = asked
    assert found["q"].shape == (1024, 4, 32)
    assert found["cu_seqlens_q"].tolist() == [0, 1024]
    assert found["seqused_k"].tolist() == [1120]
    assert found["block_table"].shape == (1, 70)
    assert found["num_splits"] == 0


def test_kernels_that_do_not_run_here_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(
        is_fa_version_supported=lambda _: False, fa_version_unsupported_reason=lambda _: "needs Hopper"
    )
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(vllm_flash_attn=module))
    monkeypatch.setitem(sys.modules, "vllm.vllm_flash_attn", module)
    with pytest.raises(ImportError, match="needs Hopper"):
        PagedAttention(TORCH, "cuda")
