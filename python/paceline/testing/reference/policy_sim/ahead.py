"""Deciding a step while the one before it runs (asynchronous scheduling).

The decision is taken at the end of the step under way, with what was not known at its start kept
aside: requests that arrived or landed since, and memory that came free, as requests were done or
another instance had read what they held.
"""

from __future__ import annotations

from paceline.testing.reference.policy_sim.state import State


def learn(state: State, until: int | None) -> None:
    """Queue the requests that had come by a moment; None: all."""
    for request in state.queue.unknown.copy():
        if until is None or request.queued_at <= until:
            state.queue.unknown.remove(request)
            state.queue.waiting.append(request)


def free_lingering(state: State) -> bool:
    """Free the memory that the decision did not know to be free; return whether there was any."""
    lingering, state.lingering = state.lingering, []
    sent, state.sent = state.sent, []
    for request in lingering:
        state.memory.release(request)
    for blocks in sent:
        state.memory.pool.release(blocks)
    return bool(lingering or sent)


def catch_up(state: State) -> bool:
    """Learn all there is, where nothing was decided ahead; return whether there was anything."""
    arrived = bool(state.queue.unknown)
    learn(state, None)
    return free_lingering(state) or arrived
