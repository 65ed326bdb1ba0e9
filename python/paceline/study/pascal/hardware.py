"""Eight instances of the paper's GPU and model.

The paper gives an H100 with 96 GB, PCIe 5.0 and 256 GB of host memory, vLLM 0.6.1, and 100 Gbps between the
nodes (III.A and V.A). Its step times come from a profile that it does not publish; here they are the
catalog's roofline. vLLM 0.6.1 starts this model with chunked prefill, of 512 tokens a step and 256 requests,
since its context is beyond 32,768 tokens, and gives 90% of the memory to itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paceline import Instance, Roofline

__all__ = [
    "BATCHED_TOKENS",
    "HOST_BYTES",
    "INSTANCES",
    "LINK_GBPS",
    "SEQUENCES",
    "kv_tokens",
    "pascals_instance",
]

INSTANCES: Final = 8
"""V.A: eight nodes, one GPU each."""

LINK_GBPS: Final = 100
"""V.A: between the nodes."""

BATCHED_TOKENS: Final = 512
SEQUENCES: Final = 256
HOST_BYTES: Final = 256e9
"""III.A: of the host. All of it is taken for KV; replays count what would not have fitted
(swap_overflows)."""


def pascals_instance(*, share: float = 1.0, slower: float = 1.0) -> Instance:
    """Return one of the paper's instances.

    Parameters
    ----------
    share
        Of its KV blocks that may be used: III.A caps them at a half.
    slower
        Times that a step takes as long as the catalog's roofline says.
    """
    whole = Instance(
        model="deepseek-r1-distill-qwen-32b",
        gpu="h100-96gb",
        gpu_memory_utilization=0.9,
        max_model_len="auto",
    )
    memory = whole.memory(max_num_batched_tokens=BATCHED_TOKENS, max_num_seqs=SEQUENCES)
    return replace(
        whole,
        num_blocks=int((memory.blocks - 1) * share) + 1,
        cost=None if slower == 1 else _slowed(whole, slower),
    )


def _slowed(instance: Instance, times: float) -> Roofline:
    gpu = instance.resolved_gpu
    assert gpu is not None
    assert gpu.efficiency is not None
    known = gpu.efficiency
    shares = ("memory", "matmul", "attention_memory", "attention_matmul")
    return Roofline(
        efficiency=replace(
            known,
            layer_s=known.layer_s * times,
            step_s=known.step_s * times,
            **{name: getattr(known, name) / times for name in shares},
        )
    )


def kv_tokens(instance: Instance) -> int:
    """Return the tokens whose keys and values an instance holds."""
    return instance.usable_blocks * instance.block_tokens
