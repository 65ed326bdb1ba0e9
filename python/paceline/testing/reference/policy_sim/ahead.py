"""Deciding a step while the one before it runs (asynchronous scheduling).

The decision is taken at the end of the step under way, with what was not known at its start kept
aside: requests that arrived since, and the memory of requests that are done with it.
"""

from __future__ import annotations

from paceline.testing.reference.policy_sim.state import State


def learn(state: State, until: int | None) -> None:
    """Queue the requests that had arrived by a moment; None: all."""
    for request in state.queue.unknown.copy():
        if until is None or request.spec.arrival <= until:
            state.queue.unknown.remove(request)
            state.queue.waiting.append(request)


def free_lingering(state: State) -> bool:
    """Free the memory of requests that were done with the latest step; return whether there were any."""
    lingering, state.lingering = state.lingering, []
    for request in lingering:
        state.memory.release(request)
    return bool(lingering)


def catch_up(state: State) -> bool:
    """Learn all there is, where nothing was decided ahead; return whether there was anything."""
    arrived = bool(state.queue.unknown)
    learn(state, None)
    return free_lingering(state) or arrived
