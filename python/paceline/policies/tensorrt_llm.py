"""TensorRT-LLM's scheduler."""

from __future__ import annotations

import math
from typing import Literal

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import (
    Admit,
    Gather,
    Policy,
    PrefixCache,
    PromptBatch,
    Recompute,
    Routing,
    Running,
    Scheduler,
    req,
)

__all__ = ["tensorrt_llm"]

Capacity = Literal["guaranteed_no_evict", "max_utilization", "static_batch"]


@typed(PolicyError)
def tensorrt_llm(
    *,
    capacity: Capacity = "guaranteed_no_evict",
    max_num_tokens: int = 8192,
    max_batch_size: int = 2048,
    prefix_caching: bool = False,
    overlap_scheduler: bool | None = None,
    chunked_prefill: bool = False,
    batch_wait_timeout_iters: int = 0,
    batch_wait_max_tokens_ratio: float = 0.0,
    routing: Routing = "fewest_requests",
) -> Policy:
    """Batch in flight: each step has all decodes, and the prompts that fit beside them.

    The capacity policy decides which requests have memory. ``guaranteed_no_evict``
    admits a request only if all blocks are free that it and the running requests will
    take until they end, so that none is preempted. ``max_utilization`` admits as long as
    the next step's blocks are free; if they run out, the latest arrival is preempted,
    and computed again in its place of the order. ``static_batch`` admits as
    ``guaranteed_no_evict`` does, and only if nothing runs.

    Parameters
    ----------
    capacity
        The capacity policy (``capacity_scheduler_policy``).
    max_num_tokens
        Tokens of a step. Without `chunked_prefill` a prompt above it is rejected.
    max_batch_size
        Requests of a step.
    prefix_caching
        Whether full blocks are kept for later requests that start the same
        (``enable_block_reuse``, which is on by default there; here it needs a trace that
        says what prompts share).
    overlap_scheduler
        Whether a step is decided when the one before it starts. None: as by default,
        on; off with ``max_utilization``, for which it is not modelled.
    chunked_prefill
        Whether a prompt that does not fit into a step is cut, to whole blocks
        (``enable_chunked_prefill``), first come, first served.
    batch_wait_timeout_iters, batch_wait_max_tokens_ratio
        Prompts wait beside decodes for at most so many steps, until a step has this share of
        `max_num_tokens` in tokens; 0: they do not wait. Not modelled beside chunks, cached
        prefixes and ``max_utilization``.
    routing
        Which instance an arrival joins.

    Returns
    -------
    Policy
        The policy.

    Raises
    ------
    PolicyError
        If ``overlap_scheduler`` is True with ``max_utilization``, or a wait is out of its range.

    Examples
    --------
    >>> tensorrt_llm().scheduler.allocation
    'chunk_if_output_fits'

    Notes
    -----
    Source: TensorRT-LLM 1.2, ``tensorrt_llm/_torch/pyexecutor/scheduler/scheduler.py``
    (``GuaranteedNoEvictPolicy``, ``MaxUtilizationPolicy``, ``PyMicroBatchScheduler``), which
    mirrors ``cpp/tensorrt_llm/batch_manager/capacityScheduler.cpp`` and
    ``microBatchScheduler.cpp``. No log of its decisions is compared. A request's
    ``max_new_tokens`` is its output's length in the trace, so that the policy uses an
    oracle. Set ``block_tokens=32`` of the instance. Not modelled: chunks of equal progress
    (``EQUAL_PROGRESS``), and a waiting prompt that fits into the last tokens of a step, fewer
    than a block, that the one before it leaves; the delay of a prompt whose prefix another one
    of the same step computes. Ranks of attention are instances in lockstep, whose prompts
    wait for each other by :class:`~paceline.deployment.Balance`; here each request joins a
    rank as it arrives, by ``routing``, and not as a step is formed.
    """
    displaces = capacity == "max_utilization"
    if displaces and overlap_scheduler:
        raise PolicyError(
            "overlap_scheduler must be False or None where capacity is 'max_utilization', was True"
        )
    ratio, waits = batch_wait_max_tokens_ratio, batch_wait_timeout_iters
    if not 0.0 <= ratio <= 1.0 or waits < 0:
        raise PolicyError(
            "batch_wait_timeout_iters must be 0 or more steps and batch_wait_max_tokens_ratio 0 to 1, were "
            f"{waits} and {ratio}"
        )
    batch = PromptBatch(tokens=math.ceil(ratio * max_num_tokens), steps=waits) if ratio and waits else None
    gather = Gather(size=1, wait_s=0.0) if capacity == "static_batch" else None
    scheduler = Scheduler(
        max_num_batched_tokens=max_num_tokens,
        max_num_seqs=max_batch_size,
        whole_block_chunks=chunked_prefill,
        prompt_batch=batch,
        stages=(Running(), Admit(chunked=chunked_prefill, gather=gather)),
        order=req.arrival if displaces else "arrival",
        admission="displace" if displaces else "wait",
        allocation="chunk" if displaces else "chunk_if_output_fits",
        preemption=Recompute(),
        prefix_cache=PrefixCache(unknown_first=True) if prefix_caching else None,
        schedule_ahead=not displaces and overlap_scheduler is not False,
    )
    return Policy(name=f"tensorrt_llm-{capacity}", scheduler=scheduler, on_arrival=routing)
