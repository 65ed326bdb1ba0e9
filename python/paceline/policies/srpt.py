"""Shortest remaining processing time first, by an oracle."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.ranked import ranked_scheduler
from paceline.policy import Policy, Rule, oracle
from paceline.policy.stages import Preemption

__all__ = ["srpt"]


@typed(PolicyError)
def srpt(
    *,
    grain: int = 16,
    preemption: Preemption | None = None,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Serve the request with the fewest tokens left to generate, which only an oracle knows.

    Parameters
    ----------
    grain
        Remaining tokens that count as equal; 1: each counts.
    preemption
        What happens to the KV of a preempted request; None: a swap over PCIe to
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
    for one server that serves one request at a time and preempts at no cost, which
    an instance does not. Tokens stand for time; a prompt's are not counted.
    """
    return Policy(
        name="srpt",
        scheduler=ranked_scheduler(
            oracle.remaining_tokens // grain,
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            preemption=preemption,
        ),
        on_arrival=routing,
    )
