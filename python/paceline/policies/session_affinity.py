"""Session affinity."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.vllm import vllm
from paceline.policy import Policy, Scheduler, affinity, first_of, inst, pick

__all__ = ["session_affinity"]


@typed(PolicyError)
def session_affinity(*, most_requests: int | None = None, scheduler: Scheduler | None = None) -> Policy:
    """Route all requests of a session to one instance, which follows from a hash of the session.

    Parameters
    ----------
    most_requests
        Unfinished requests of the router on that instance above which a request goes to
        the least loaded instead; None: never.
    scheduler
        How instances form their steps; None: as vLLM with prefix caching.

    Returns
    -------
    Policy
        The policy, for a trace with sessions. A request without a session goes to the
        least loaded instance.

    Examples
    --------
    >>> session_affinity().on_arrival
    first_of(affinity('session'), pick(min=inst.routed_requests))

    Notes
    -----
    Source: vLLM's production stack, ``routers/routing_logic.py``, ``SessionRouter``
    (from reading, no commit pinned): a hash ring of URLs by the session's id, and the
    instance with the lowest rate of requests where there is no id. Differences: keys are
    assigned by rendezvous hashing, so that the same session may have another instance
    than on the ring; the least loaded is that with the fewest unfinished requests;
    `most_requests` is not in the source.
    """
    owner = affinity("session")
    bounded = owner if most_requests is None else owner.unless(inst.there.routed_requests > most_requests)
    return Policy(
        name="session-affinity",
        scheduler=vllm(prefix_caching=True).scheduler if scheduler is None else scheduler,
        on_arrival=first_of(bounded, pick(min=inst.routed_requests)),
    )
