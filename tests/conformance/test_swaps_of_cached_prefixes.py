"""Blocks that swapped-out requests share: the reference simulator against vLLM 0.6.1's own block manager."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from paceline import Scheduler
from paceline.policy import PrefixCache
from paceline.policy.stages import Admit, Running, Swap, SwapIn
from paceline.testing.reference.policy_sim.contents import Contents
from paceline.testing.reference.policy_sim.memory import Memory
from paceline.testing.reference.policy_sim.request import Request, TraceRequest
from paceline.testing.reference.policy_sim.settings import Settings

LOG = json.loads(gzip.decompress((Path(__file__).parent / "memory" / "swaps.json.gz").read_bytes()))
BLOCK = LOG["block_tokens"]


class Replayed:
    """A case's sequences in the reference simulator's memory."""

    def __init__(self, case: dict[str, Any]) -> None:
        scheduler = Scheduler(
            stages=(Running(), SwapIn(), Admit()),
            preemption=Swap(cpu_blocks=case["cpu_blocks"]),
            prefix_cache=PrefixCache(),
        )
        wire = scheduler.to_wire(num_blocks=case["gpu_blocks"], defaults=(2048, 256))
        settings = Settings.of({"block_tokens": BLOCK, "max_model_len": None, "scheduler": wire})
        rows = [
            TraceRequest(0, tokens, 9, prefix=tuple(blocks[:-1]))
            for tokens, blocks in zip(case["tokens"], case["blocks"], strict=True)
        ]
        self.memory = Memory(case["gpu_blocks"], settings, Contents(rows, BLOCK, BLOCK))
        self.requests = [Request(index, row) for index, row in enumerate(rows)]

    def admit(self, request: Request) -> int:
        memory = self.memory
        memory.attach_prefix(request, memory.hits(request, request.tokens))
        memory.grow(request, request.tokens)
        request.computed, request.memory = request.tokens, "gpu"
        memory.register_full(request, request.computed)
        return 0

    def swap_out(self, request: Request) -> int:
        blocks = len(request.blocks)
        self.memory.release(request)
        assert self.memory.keep_on_cpu(request, blocks)
        return blocks

    def swap_in(self, request: Request) -> int:
        copied = self.memory.move_to_gpu(request, request.tokens)
        self.memory.register_full(request, request.computed)
        return copied

    def full(self, request: Request) -> int:
        assert len(request.blocks) > self.memory.cpu_pool.free
        return 0


@pytest.mark.parametrize("case", LOG["cases"], ids=range(len(LOG["cases"])))
def test_copies_and_free_blocks_are_those_of_vllm(case: dict[str, Any]) -> None:
    replayed = Replayed(case)
    for operation, sequence, *expected in case["operations"]:
        copied = getattr(replayed, operation)(replayed.requests[sequence])
        assert [copied, replayed.memory.free, replayed.memory.cpu_pool.free] == expected, operation


def test_the_log_has_blocks_that_are_shared() -> None:
    """In some swaps fewer blocks are taken than copied, and some find no room."""
    shared = full = 0
    for case in LOG["cases"]:
        before = case["cpu_blocks"]
        for operation, _, copied, _, free in case["operations"]:
            shared += operation == "swap_out" and before - free < copied
            full += operation == "full"
            before = free
    assert (shared > 100, full > 100) == (True, True)
