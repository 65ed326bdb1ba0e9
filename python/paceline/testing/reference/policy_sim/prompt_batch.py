"""Prompts that wait until enough of them have gathered, while requests decode."""

from __future__ import annotations

from paceline.testing.reference.policy_sim.admission import offer
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.state import State
from paceline.testing.reference.policy_sim.step import Step

__all__ = ["has_prompt", "holds_prompts"]


def has_prompt(state: State, step: Step) -> bool:
    """Whether a queued prompt fits into a step beside the requests in the batch, before these take blocks."""
    received = len(state.incoming.received)
    step.left = max(step.budget - state.admitted - received, 0)
    return bool(_fitting(state, step, received))


def holds_prompts(state: State, step: Step) -> bool:
    """Whether the stage that admits is left out, as the prompts of a step are held back; it is counted if so.

    For other instances, prompts alone are held back, and not requests whose KV has been received.
    """
    rule, decodes = state.settings.prompt_batch, step.budget - step.left
    if state.held_together:
        step.received_alone = decodes > 0 or bool(state.incoming.received)
    if state.held_together or rule is None or decodes == 0:
        return False
    prompts = _fitting(state, step, 0)
    if not prompts:
        return False
    tokens = decodes + sum(request.lacking for request in prompts)
    if state.steps_held == rule["steps"] or tokens >= rule["tokens"]:
        state.steps_held = 0
        return False
    state.steps_held += 1
    return True


def _fitting(state: State, step: Step, received: int) -> list[Request]:
    """Return the prompts that would be admitted beside received requests, one after the other."""
    settings, memory = state.settings, state.memory
    found: list[Request] = []
    claimed = 0
    for request in state.queue.waiting:
        if request.lacking > settings.max_num_batched_tokens:
            continue
        room = step.room - sum(one.lacking for one in found)
        if state.admitted + received + len(found) >= settings.max_num_seqs or request.lacking > room:
            break
        offered = offer(state, request, step, chunked=False)
        assert offered is not None
        if claimed + offered.new > memory.free:
            break
        found.append(request)
        whole = request.spec.prompt_tokens + request.spec.output_tokens
        reserves = settings.allocation == "chunk_if_output_fits"
        claimed += memory.blocks_for(max(whole, request.lacking) if reserves else request.lacking)
    return found
