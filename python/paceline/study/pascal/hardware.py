"""Eight instances of the paper's GPU and model.

The paper gives an H100 with 96 GB, PCIe 5.0 and 256 GB of host memory, vLLM 0.6.1, and 100 Gbps between the
nodes (III.A and V.A). It does not publish its step times. Here a step is the catalog's roofline plus the
host time of vLLM 0.6.1. Steps have 512 tokens and 256 requests, and vLLM has 90% of the memory, as 0.6.1 sets
them with chunked prefill.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paceline import Instance, Roofline

__all__ = [
    "HOST_STEP_MOST_S",
    "HOST_STEP_S",
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

HOST_STEP_S: Final = 5e-3
HOST_STEP_MOST_S: Final = 13e-3
"""Seconds of each step in which the GPU waits for the host (scheduler, inputs, sampled tokens, output).

Source: vllm-project/vllm issue 6854, "[RFC]: Multi-Step Scheduling" (26 July 2024, so of 0.5.3): "5-13ms of
GPU bubble" at each decode step of vLLM's default scheduling. No source for 0.6.1 itself was found. 0.6.0
moved the processing of outputs out of this gap (`use_async_output_proc`, on by default), so the study takes
the least of the range, and the most as a variation. The same order of size: vLLM's blog of 5 September 2024
(blog.vllm.ai/2024/09/05/perf-update.html) has, before 0.6.0, 29% of the time of Llama 3 8B on an H100 in
scheduling, inputs and outputs included.
"""


def pascals_instance(
    *, share: float = 1.0, slower: float = 1.0, host_step_s: float = HOST_STEP_S
) -> Instance:
    """Return one of the paper's instances.

    Parameters
    ----------
    share
        Of its KV blocks that may be used: III.A caps them at a half.
    slower
        Factor on the whole step, host time included.
    host_step_s
        Seconds that each step takes beside the catalog's roofline.
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
        cost=_slowed(whole, slower, host_step_s),
    )


def _slowed(instance: Instance, times: float, host_step_s: float) -> Roofline:
    gpu = instance.resolved_gpu
    assert gpu is not None
    assert gpu.efficiency is not None
    known = gpu.efficiency
    shares = ("memory", "matmul", "attention_memory", "attention_matmul")
    return Roofline(
        efficiency=replace(
            known,
            layer_s=known.layer_s * times,
            step_s=(known.step_s + host_step_s) * times,
            **{name: getattr(known, name) / times for name in shares},
        )
    )


def kv_tokens(instance: Instance) -> int:
    """Return the tokens whose keys and values an instance holds."""
    return instance.usable_blocks * instance.block_tokens
