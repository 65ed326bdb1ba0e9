"""First come, first served, the baseline of PASCAL."""

from __future__ import annotations

from dataclasses import replace

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.ranked import ranked_scheduler
from paceline.policies.vllm_v0 import vllm_v0
from paceline.policy import Policy, PrefixCache, Rule, Swap, inst, pick, req
from paceline.policy.stages import Preemption

__all__ = ["fcfs"]


@typed(PolicyError)
def fcfs(
    *,
    strict: bool = True,
    chunked_prefill: bool = True,
    preemption: Preemption | None = None,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int = 256,
    watermark: float = 0.01,
    routing: Rule | None = None,
    prefix_caching: bool | PrefixCache = False,
) -> Policy:
    """Serve in order of arrival, and swap to the CPU when memory runs out.

    With `Cluster.with_room_for`, this is the paper's oracle: no request waits
    for memory or is preempted.

    Parameters
    ----------
    strict
        Whether running, swapped and waiting requests form one queue in order of
        arrival, so that admissions pause while an earlier request is swapped
        out. False: vLLM 0.6.1's own queues, in which a new request may be
        admitted past a swapped one that does not fit.
    chunked_prefill
        Whether prompts are cut to fit a step. False needs `strict` to be False:
        vLLM then runs whole prompts, and admits none while a request is swapped
        out. vLLM 0.6.1 turns chunked prefill on by itself above 32,768
        positions.
    preemption
        What happens to the KV of a preempted request; None: a swap over PCIe to
        256 GiB of CPU memory a GPU, the size of the paper's host (III-A).
    max_num_batched_tokens, max_num_seqs, watermark
        As in `vllm_v0`.
    routing
        Which instance an arrival joins; None: the one with the least KV, as in
        the paper.
    prefix_caching
        As in `vllm_v0`.

    Returns
    -------
    Policy
        The policy.

    Raises
    ------
    PolicyError
        If `strict` is True with whole prompts.

    Examples
    --------
    >>> fcfs().on_arrival
    pick(min=inst.kv_tokens)
    >>> fcfs().scheduler.order
    req.arrival

    Notes
    -----
    Source: the baseline FCFS of Cho et al., "PASCAL" (HPCA 2026), section V-A:
    "served strictly in arrival order", and when KV spills to the CPU, "new
    admissions pause until space frees up". The paper calls it vLLM's default;
    vLLM 0.6.1 pauses so with whole prompts (``_schedule_default``) and not with
    chunked ones (``_schedule_chunked_prefill``).
    """
    swap = preemption or Swap.over_pcie(cpu_gib=256)
    arrive = pick(min=inst.kv_tokens) if routing is None else routing
    if not strict:
        base = vllm_v0(
            chunked_prefill=chunked_prefill,
            preemption=swap,
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            watermark=watermark,
            prefix_caching=prefix_caching,
        )
        return replace(base, name="fcfs", on_arrival=arrive)
    if not chunked_prefill:
        raise PolicyError(
            "strict of fcfs must be False with whole prompts, was True: "
            "pass fcfs(strict=False, chunked_prefill=False)"
        )
    scheduler = ranked_scheduler(
        req.arrival,
        max_num_batched_tokens=512 if max_num_batched_tokens is None else max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        admission="wait",
        watermark=watermark,
        preemption=swap,
        prefix_caching=prefix_caching,
    )
    return Policy(name="fcfs", scheduler=scheduler, on_arrival=arrive)
