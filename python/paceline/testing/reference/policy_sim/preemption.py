"""Which request gives way when blocks run out, and what becomes of its memory."""

from __future__ import annotations

from paceline.testing.reference.policy_sim.request import Request, Spell
from paceline.testing.reference.policy_sim.state import State
from paceline.testing.reference.policy_sim.step import Step


def choose_victim(state: State, *, prefills: bool) -> Request | None:
    """Choose the request that gives way next; None where only prefills are left, and may not be asked."""
    able = [request for request in state.running if prefills or request.decoding]
    if not able:
        return None
    if state.ranking is not None:
        return max(able, key=state.ranking.rank)
    if state.settings.victim == "worst":
        return max(able, key=lambda request: (request.spec.priority, request.index))
    if state.settings.victim == "fewest_generated":
        return min(able, key=lambda one: (one.generated, -one.spec.prompt_tokens, -one.index))
    return able[-1]


def preempt(state: State, request: Request, step: Step) -> None:
    """Take a request's place and its blocks, and what it was to compute in this step."""
    scheduled = step.drop(request, refund=state.settings.refund)
    state.batch.pop(request, None)
    state.running.remove(request)
    step.preempted.append(request)
    request.preemptions += 1
    request.attained += step.start - request.admitted_at
    request.spells.append(Spell(step.start, request.phase))
    if state.ranking is None:
        # As in vLLM, what was scheduled is known from then on, computed or not.
        state.memory.learn(request, request.computed + scheduled)
        kept = len(request.blocks)
    else:
        kept = state.memory.blocks_for(request.computed)
    state.memory.release(request)
    swapped = state.settings.swap is not None and state.memory.put_up(request, kept)
    if swapped:
        state.copied_out += kept
    else:
        state.memory.lose(request)
    state.enqueue(request, step.start)
    if state.ranking is not None:
        state.queue.waiting.append(request)
        state.rank(request, step.start)
    elif swapped:
        state.queue.swapped.append(request)
    elif state.settings.requeue_late:
        step.late.append(request)
    else:
        state.queue.put_back(request)


def put_back_late(state: State, step: Step) -> None:
    """Queue victims again once the step is formed; the last one stands before the one before it."""
    for request in step.late:
        state.queue.put_back(request)
