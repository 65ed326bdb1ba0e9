"""Deciding a step while the one before it runs (asynchronous scheduling).

The step is decided at the end of the running one, without what was not known when that started: requests that
arrived or migrated here since, and blocks that were freed since by finished or migrated requests.
"""

from __future__ import annotations

from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.state import State


def release_due(state: State, until: int | None) -> None:
    """Queue the requests that had arrived by a moment; None: all."""
    for request in state.queue.unknown.copy():
        if until is None or request.queued_at <= until:
            state.queue.unknown.remove(request)
            state.queue.waiting.append(request)


def free_deferred(state: State) -> bool:
    """Free the blocks that the decision still counted as held; return whether there were any."""
    deferred, state.deferred = state.deferred, []
    for one in deferred:
        if isinstance(one, Request):
            state.memory.release(one)
        else:
            state.memory.pool.release(*one)
    return bool(deferred)


def catch_up(state: State) -> bool:
    """Release all arrivals and deferred blocks, if no step was decided ahead; return whether any was.

    Requests that were handed over and that the step did not see are seen from now on.
    """
    handed_over = state.started is not None and bool(state.incoming.offered or state.incoming.received)
    arrived = bool(state.queue.unknown)
    state.started = None
    release_due(state, None)
    return free_deferred(state) or arrived or handed_over
