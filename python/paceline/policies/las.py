"""Least attained service."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.ranked import ranked_scheduler
from paceline.policy import Policy, Rule, req
from paceline.policy.stages import Preemption

__all__ = ["las"]


@typed(PolicyError)
def las(
    *,
    grain_s: float = 1.0,
    preemption: Preemption | None = None,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Serve the request that has been served least, by the time that it has run.

    Parameters
    ----------
    grain_s
        Seconds of service that count as equal. The discipline is defined for 0,
        where equal requests share a server. Below the time of a few steps, equal
        requests displace each other at each step.
    preemption
        What happens to the KV of a preempted request; None: a swap over PCIe to
        512 GiB of CPU memory a GPU. With recompute, two long prompts may displace
        each other forever: the time that was lost counts as attained, and neither
        prompt is ever finished.
    max_num_batched_tokens, max_num_seqs
        Limits of a step; None: the GPU's defaults.
    routing
        Which instance an arrival joins.

    Returns
    -------
    Policy
        The policy.

    Examples
    --------
    >>> las(grain_s=0.5).scheduler.order
    req.attained_time // 0.5

    Notes
    -----
    Source: Nuyens and Wierman, "The Foreground-Background queue: A survey"
    (Performance Evaluation 65, 2008), which uses both names; applied here to the
    requests of a batch.
    """
    return Policy(
        name="las",
        scheduler=ranked_scheduler(
            req.attained_time // grain_s,
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            preemption=preemption,
        ),
        on_arrival=routing,
    )
