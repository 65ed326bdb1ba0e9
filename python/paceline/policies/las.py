"""Least attained service."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.vllm_v0 import chunked_stages
from paceline.policy import Policy, Rule, Scheduler, Swap, req
from paceline.policy.stages import PcieSwap, Recompute

__all__ = ["las"]


@typed(PolicyError)
def las(
    *,
    grain_s: float = 1.0,
    preemption: Recompute | Swap | PcieSwap | None = None,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Serve who has been served least: the time that a request has run ranks it.

    Parameters
    ----------
    grain_s
        Seconds of service that count as the same. The discipline is defined for
        0, where equals share a server; below the time of some steps, those who
        are equal put each other out at each.
    preemption
        What becomes of the memory of those put out; None: a swap over PCIe to
        512 GiB of CPU memory a GPU. Where it is lost instead, two long prompts
        may put each other out for ever: the time that was lost counts as
        attained, and neither is ever through.
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
    (Performance Evaluation 65, 2008), which calls it by both names; here of
    requests in a batch.
    """
    return Policy(
        name="las",
        scheduler=Scheduler(
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            stages=chunked_stages(),
            order=req.attained_time // grain_s,
            admission="displace",
            preemption=preemption or Swap.over_pcie(cpu_gib=512),
        ),
        on_arrival=routing,
    )
