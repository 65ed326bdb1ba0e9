"""Shortest remaining first, by an oracle."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.vllm_v0 import chunked_stages
from paceline.policy import Policy, Rule, Scheduler, Swap, oracle
from paceline.policy.stages import PcieSwap, Recompute

__all__ = ["srpt"]


@typed(PolicyError)
def srpt(
    *,
    grain: int = 16,
    preemption: Recompute | Swap | PcieSwap | None = None,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Serve whoever has the fewest tokens left to yield, which only an oracle knows.

    Parameters
    ----------
    grain
        Tokens left that count as the same; 1: each counts.
    preemption
        What becomes of the memory of those put out; None: a swap over PCIe to
        512 GiB of CPU memory a GPU.
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
    >>> srpt().uses_oracle
    True

    Notes
    -----
    Source: Schrage, "A Proof of the Optimality of the Shortest Remaining
    Processing Time Discipline" (Operations Research 16, 1968): optimal in the mean
    for one server that serves one at a time and puts work aside at no cost, which
    an instance does not. Tokens stand for time; a prompt's are not counted.
    """
    return Policy(
        name="srpt",
        scheduler=Scheduler(
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            stages=chunked_stages(),
            order=oracle.remaining_tokens // grain,
            admission="displace",
            preemption=preemption or Swap.over_pcie(cpu_gib=512),
        ),
        on_arrival=routing,
    )
