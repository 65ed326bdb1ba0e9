"""Requests that wait too long are dropped."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.vllm import vllm
from paceline.policy import Policy, Scheduler, first_of, hold, inst, pick

__all__ = ["shed_late"]


@typed(PolicyError)
def shed_late(*, after: float, waiting: int = 1, scheduler: Scheduler | None = None) -> Policy:
    """Hold requests at the router while all instances have others waiting, and drop those that wait too long.

    Parameters
    ----------
    after
        Seconds after which a request that is held is dropped; its status is ``gave_up``.
    waiting
        A request goes to the instance with the fewest requests of those on which fewer than so many wait.
    scheduler
        How an instance forms its steps; None: vLLM V1's.

    Returns
    -------
    Policy
        The policy.

    Examples
    --------
    >>> shed_late(after=2.0).give_up_after
    2.0

    Notes
    -----
    Source: requests with a time to live in the queue of a gateway, as of llm-d's ``defaultRequestTTL``. A
    request that an instance has is not dropped any more.
    """
    return Policy(
        name="shed_late",
        scheduler=vllm().scheduler if scheduler is None else scheduler,
        on_arrival=first_of(pick(min=inst.requests, where=inst.waiting < waiting), hold(blocks="all")),
        give_up_after=after,
    )
