"""Andes' scheduler for quality of experience."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.ranked import ranked_scheduler
from paceline.policy import (
    Displace,
    Expr,
    Pace,
    Policy,
    Refresh,
    Rule,
    inst,
    maximum,
    minimum,
    req,
    where,
)
from paceline.policy.stages import Preemption

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
    preemption: Preemption | None = None,
    max_num_batched_tokens: int = 512,
    max_num_seqs: int = 256,
    watermark: float = 0.01,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Rank requests by the quality of experience that serving them gains per block of memory.

    Parameters
    ----------
    ttft, tpot
        Seconds within which a user expects the first token, and each later one,
        the same for all requests. 10 and 1 are the defaults of the authors' code.
    horizon
        Seconds ahead at which the gain is computed.
    pressure
        Share of the blocks in use from which on requests are displaced.
    running_bonus
        Factor above 1 by which the gain of a running request is raised.
    most_displaced
        The most requests displaced in one step; None: no limit.
    refresh_steps
        Steps after which gains are computed again.
    preemption
        What happens to the KV of a preempted request; None: a swap over PCIe to
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
    ``vllm/core/andes_*``: the gain of serving against waiting, times 1.1 for
    running requests, divided by blocks. Differences: the code limits how many
    requests are preempted in a step by the 10th percentile of all requests'
    slack, here a number does; the code packs requests by value per block, here
    they are admitted by rank until one does not fit; the code keeps prefills and
    decodes in different steps; and whether a request is ahead of its reader is
    evaluated now, not as of its last token.
    """
    gain = _gain(ttft, tpot, horizon) * where(req.running, 1 + running_bonus, 1)
    return Policy(
        name="andes",
        scheduler=ranked_scheduler(
            -gain / maximum(req.blocks, 1),
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            refresh=Refresh(steps=refresh_steps),
            admission=Displace(when=inst.kv_usage >= pressure, most=most_displaced),
            watermark=watermark,
            preemption=preemption,
        ),
        on_arrival=routing,
        pace=Pace(tpot=tpot, first=ttft, ttft=ttft),
    )


def _gain(ttft: float, tpot: float, horizon: float) -> Expr:
    """Return the quality at the horizon if the request is served, less that if it waits."""
    had, age = req.generated_tokens, req.age
    expected = (age + horizon) / tpot
    reached = (had + horizon / max(tpot, FASTEST_S)) / expected
    ahead = age <= ttft + had * tpot
    served = where(ahead, 1, minimum(1, reached * reached))
    lacking = (expected - had) / expected
    late = where(age + horizon <= ttft, 1, 0)
    left = where(had == 0, late, where(expected <= had, 1, 1 - lacking * lacking))
    return served - left
