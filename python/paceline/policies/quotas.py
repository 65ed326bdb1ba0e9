"""A limit of running requests for each tenant."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import Policy, Rule, Scheduler, accumulated

__all__ = ["quotas"]


@typed(PolicyError)
def quotas(
    *,
    running: int,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Run at most so many requests of a tenant at once on an instance, first come, first served.

    A request of a tenant at its limit waits, and others behind it are admitted.

    Parameters
    ----------
    running
        The most running requests of a tenant on an instance.
    max_num_batched_tokens, max_num_seqs
        Limits of a step; None: the GPU's defaults.
    routing
        Which instance an arrival joins.

    Returns
    -------
    Policy
        The policy. It reads the trace's ``tenant``.

    Raises
    ------
    PolicyError
        If `running` is below 1.

    Examples
    --------
    >>> quotas(running=8).scheduler.admits
    accumulated(by='tenant', running=1.0) < 8

    Notes
    -----
    Source: limits of parallel requests by key, as gateways have them (LiteLLM's ``max_parallel_requests``).
    """
    if running < 1:
        raise PolicyError(f"running must be at least 1 request, was {running}")
    return Policy(
        name="quotas",
        scheduler=Scheduler(
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            admits=accumulated(by="tenant", running=1.0) < running,
        ),
        on_arrival=routing,
    )
