"""Andes' scheduler for quality of experience."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.vllm_v0 import chunked_stages
from paceline.policy import (
    Displace,
    Expr,
    Pace,
    Policy,
    Refresh,
    Rule,
    Scheduler,
    Swap,
    inst,
    maximum,
    minimum,
    req,
    where,
)
from paceline.policy.stages import PcieSwap, Recompute

__all__ = ["andes"]

FASTEST_S = 0.02
"""Seconds a token takes at best, which the authors' code assumes (vllm/core/andes_*)."""


@typed(PolicyError)
def andes(
    *,
    ttft: float = 10.0,
    tpot: float = 1.0,
    horizon: float = 10.0,
    pressure: float = 0.9,
    running_bonus: float = 0.1,
    most_displaced: int | None = 1,
    refresh_steps: int = 1,
    preemption: Recompute | Swap | PcieSwap | None = None,
    max_num_batched_tokens: int = 512,
    max_num_seqs: int = 256,
    watermark: float = 0.01,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Serve whom it helps most: by the quality of experience gained per block of memory.

    Parameters
    ----------
    ttft, tpot
        Seconds in which a user expects the first token, and each after it: one
        expectation for all. 10 and 1 are the code's where a request says none.
    horizon
        Seconds ahead at which the gain is judged.
    pressure
        Share of the blocks in use from which requests are put out for others.
    running_bonus
        How much more a request counts that runs already.
    most_displaced
        Requests put out in one step at most; None: no limit.
    refresh_steps
        Steps after which gains are worked out anew.
    preemption
        What becomes of the memory of those put out; None: a swap over PCIe to
        512 GiB of CPU memory a GPU.
    max_num_batched_tokens, max_num_seqs, watermark
        As in `pascal`: the authors' code is of vLLM 0.6.1.
    routing
        Which instance an arrival joins.

    Returns
    -------
    Policy
        The policy.

    Examples
    --------
    >>> andes(tpot=0.2).pace
    Pace(tpot=0.2, first=10.0, ttft=10.0)

    Notes
    -----
    Source: the first author's fork, AmberLJC/vllm-0.6.1 (3cc5c845),
    ``vllm/core/andes_*``: the gain of serving against waiting, times 1.1 for who
    runs, by blocks. Other than there: the code limits how many give way in a step
    by the 10th percentile of all requests' slack, here by a number; it packs
    requests by value per block and weight once more, here the best goes first
    until one does not fit; it keeps prefills and decodes in different steps; and
    who is ahead is asked as of now, not of the last token.
    """
    gain = _gain(ttft, tpot, horizon) * where(req.running, 1 + running_bonus, 1)
    return Policy(
        name="andes",
        scheduler=Scheduler(
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            stages=chunked_stages(),
            order=-gain / maximum(req.blocks, 1),
            refresh=Refresh(steps=refresh_steps),
            admission=Displace(when=inst.kv_usage >= pressure, most=most_displaced),
            allocation="sequence",
            watermark=watermark,
            watermark_when_idle=True,
            preemption=preemption or Swap.over_pcie(cpu_gib=512),
        ),
        on_arrival=routing,
        pace=Pace(tpot=tpot, first=ttft, ttft=ttft),
    )


def _gain(ttft: float, tpot: float, horizon: float) -> Expr:
    """Return the quality at the horizon if served, less that if left to wait."""
    had, age = req.generated_tokens, req.age
    expected = (age + horizon) / tpot
    reached = (had + horizon / max(tpot, FASTEST_S)) / expected
    ahead = age <= ttft + had * tpot
    served = where(ahead, 1, minimum(1, reached * reached))
    lacking = (expected - had) / expected
    late = where(age + horizon <= ttft, 1, 0)
    left = where(had == 0, late, where(expected <= had, 1, 1 - lacking * lacking))
    return served - left
