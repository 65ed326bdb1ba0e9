"""DistServe: prefill and decode on instances of their own, with decode instances that pull."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import Handover, Policy, Pools, Scheduler, inst, pick
from paceline.policy.stages import Admit, Decodes, Swap, SwapIn

__all__ = ["distserve"]


@typed(PolicyError)
def distserve(
    *,
    prefill: int,
    decode: int,
    prefill_batch: int = 16,
    prefill_tokens: int = 8192,
    decode_batch: int = 128,
    most_waiting: float = 0.05,
    swap: Swap | None = None,
) -> Policy:
    """Prefill whole prompts first come, first served; a decode instance takes them when it has room.

    A prefill instance forms batches of whole prompts and keeps their KV until a decode
    instance has read it, so that prompts wait while its blocks are full. A decode
    instance accepts one request at a time, as long as the requests that it has accepted
    and not yet run hold less than a share of its blocks.

    Parameters
    ----------
    prefill, decode
        Instances of each pool.
    prefill_batch, prefill_tokens
        Most prompts of a step, and most of their tokens.
    decode_batch
        Most requests of a decode step.
    most_waiting
        The share of a decode instance's blocks.
    swap
        How a decode instance without free blocks preempts the request that it admitted
        last; None: to 100,000 blocks of the CPU, in no time.

    Examples
    --------
    >>> distserve(prefill=2, decode=2).handover
    Handover(most_transfers=1, most_held=0.05, lease=None)

    Notes
    -----
    Source: Zhong et al., "DistServe: Disaggregating Prefill and Decoding for
    Goodput-optimized Large Language Model Serving" (OSDI 2024); LLMServe/DistServe
    (82831f16): the batches and the pull of ``distserve/context_stage_scheduler.py`` and
    ``decoding_stage_scheduler.py``, the choice of instances of
    ``simdistserve/base/scheduler.py``. Given what the source's router saw, the rules make its
    choices (``tests/conformance/logs/routers/simdistserve_dispatch``): the prefill
    instance with the fewest prompts, the decode instance with the shortest queue, in
    which requests of a step under way do not count. Differences: decode instances
    compute while they pull, where the source waits for each transfer; a waiting request
    needs its blocks once, where the source counts them twice as it joins the batch; a
    decode instance's context tokens are not limited, where ``simdistserve`` has 50,000 a
    step and serves those beyond in turn.
    """
    prompts = Scheduler(
        max_num_batched_tokens=prefill_tokens,
        max_num_seqs=prefill_batch,
        stages=(Admit(chunked=False), Decodes()),
        allocation="sequence",
    )
    tokens = Scheduler(
        max_num_batched_tokens=prefill_tokens,
        max_num_seqs=decode_batch,
        stages=(
            Decodes(),
            SwapIn(),
            Admit(chunked=False, unless_preempted=True, unless_swapped=True),
        ),
        allocation="sequence",
        preemption=Swap(cpu_blocks=100_000) if swap is None else swap,
    )
    return Policy(
        name="distserve",
        scheduler={"prefill": prompts, "decode": tokens},
        on_arrival=pick(min=inst.waiting + inst.running, within="prefill"),
        on_prefilled=pick(min=inst.waiting, within="decode"),
        pools=Pools(prefill=prefill, decode=decode),
        handover=Handover(most_transfers=1, most_held=most_waiting, lease=None),
    )
