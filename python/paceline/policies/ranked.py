"""What the policies that rank requests share: chunked prefill, displacement or selection, and swapping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from paceline.policy import Class, Displace, Expr, Levels, PrefixCache, Quantum, Refresh, Scheduler, Swap
from paceline.policy.stages import Admit, Preemption, Running, Select

__all__ = ["ranked_scheduler"]


def ranked_scheduler(
    order: Expr | Levels | Quantum,
    *,
    classes: Sequence[Class] = (),
    refresh: Refresh | None = None,
    admission: Literal["wait", "displace"] | Displace = "displace",
    preemption: Preemption | None = None,
    cpu_gib: float = 512,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    watermark: float | None = None,
    select: Select | None = None,
    spare_block: bool = False,
    prefix_caching: bool | PrefixCache = False,
) -> Scheduler:
    """Return a scheduler with chunked prefill that ranks all requests of an instance in one order.

    Running requests are scheduled first, then requests are admitted by rank; swapped-out requests are in the
    same queue as new ones.

    Parameters
    ----------
    order, classes, refresh, admission
        As in `Scheduler`.
    preemption
        What happens to the KV of a preempted request; None: a swap over PCIe.
    cpu_gib
        GiB of CPU memory a GPU for that swap.
    max_num_batched_tokens, max_num_seqs
        Limits of a step; None: the GPU's defaults.
    watermark
        Share of the blocks that an admission leaves free; it then allocates blocks for the whole sequence, as
        vLLM 0.6.1 does. None: an admission allocates its first chunk and leaves no blocks free.
    select
        The stage that selects each step's requests anew, instead of stages that continue and admit them; then
        ``admission`` does not apply.
    spare_block
        As in `Scheduler`.
    prefix_caching
        Whether full blocks are kept for later requests that start the same, or how.

    Examples
    --------
    >>> from paceline import req
    >>> ranked_scheduler(req.arrival, admission="wait", watermark=0.01).allocation
    'sequence'
    """
    return Scheduler(
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        stages=(Running(), Admit()) if select is None else (select,),
        order=order,
        classes=classes,
        refresh=refresh,
        admission=admission if select is None else "wait",
        allocation="chunk_if_all_fits" if watermark is None else "sequence",
        watermark=watermark or 0.0,
        watermark_when_idle=watermark is not None,
        spare_block=spare_block,
        preemption=preemption or Swap.over_pcie(cpu_gib=cpu_gib),
        prefix_cache=PrefixCache() if prefix_caching is True else prefix_caching or None,
    )
