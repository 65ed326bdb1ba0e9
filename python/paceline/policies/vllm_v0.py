"""vLLM V0's scheduler."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import Policy, PrefixCache, Routing, Scheduler
from paceline.policy.stages import (
    Admit,
    Decodes,
    PcieSwap,
    Preemption,
    Recompute,
    Running,
    Stage,
    Swap,
    SwapIn,
)

__all__ = ["vllm_v0"]


@typed(PolicyError)
def vllm_v0(
    *,
    chunked_prefill: bool = False,
    preemption: Preemption | None = None,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = 256,
    watermark: float = 0.01,
    routing: Routing = "fewest_requests",
    prefix_caching: bool | PrefixCache = False,
) -> Policy:
    """Schedule as vLLM 0.6.1 does: whole prompts first, and decodes only if no prompt can be admitted.

    With chunked prefill, decodes and prefills share steps instead. An admission
    allocates blocks for its whole prompt and leaves 1% of all blocks free. A
    running request needs a free block at each step, even if it fills none.

    Parameters
    ----------
    chunked_prefill
        vLLM 0.6.1 turns it on by itself where ``max_model_len`` exceeds 32,768.
    preemption
        `Recompute` (None), or `Swap` to the CPU's memory (``--preemption-mode swap``).
        vLLM stops with an error if that is full; here such a victim is recomputed
        and counted.
    max_num_batched_tokens
        Tokens of a step; None: 512 with chunked prefill; without it, vLLM takes
        the larger of ``max_model_len`` and 2,048, here the GPU's default.
    max_num_seqs
        Requests that may run at once.
    watermark
        Share of the blocks that admissions and swap-ins leave free.
    routing
        Which instance an arrival joins.
    prefix_caching
        Whether full blocks are kept for later requests that start the same
        (``--enable-prefix-caching``); a :class:`~paceline.policy.PrefixCache` says how.
        Its lookups are vLLM V1's: 0.6.1 counts the tokens and blocks of an admission
        in full although some are cached, and merges equal blocks.

    Returns
    -------
    Policy
        The policy.

    Examples
    --------
    >>> vllm_v0(chunked_prefill=True).scheduler.max_num_batched_tokens
    512

    Notes
    -----
    Source: ``vllm/core/scheduler.py`` and ``block_manager_v1.py``, 0.6.1. All
    decision logs in ``tests/conformance/logs/vllm-v0`` are reproduced.
    """
    back: tuple[Stage, ...] = (
        (SwapIn(unless_preempted=True),) if isinstance(preemption, Swap | PcieSwap) else ()
    )
    tokens = max_num_batched_tokens
    stages: tuple[Stage, ...]
    if chunked_prefill:
        stages = (Running(), *back, Admit())
        tokens = 512 if tokens is None else tokens
    else:
        stages = (Admit(chunked=False, unless_swapped=True), Decodes(charged=False), *back)
    scheduler = Scheduler(
        max_num_batched_tokens=tokens,
        max_num_seqs=max_num_seqs,
        stages=stages,
        exclusive_prefill=not chunked_prefill,
        allocation="sequence",
        watermark=watermark,
        watermark_when_idle=True,
        spare_block=True,
        decodes_first=chunked_prefill,
        preemption=preemption or Recompute(),
        requeue_late=True,
        prefix_cache=PrefixCache() if prefix_caching is True else prefix_caching or None,
    )
    return Policy(name="vllm-v0", scheduler=scheduler, on_arrival=routing)
