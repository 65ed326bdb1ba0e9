"""Preemption: which request is the victim when blocks run out, and what happens to its KV."""

from __future__ import annotations

from paceline.testing.reference.policy_sim.async_arrivals import forget_outcome, preempt_ended
from paceline.testing.reference.policy_sim.joining import leave_adapter
from paceline.testing.reference.policy_sim.request import Request, Spell
from paceline.testing.reference.policy_sim.state import State
from paceline.testing.reference.policy_sim.step import Step


def choose_victim(state: State, *, prefills: bool) -> Request | None:
    """Choose the next victim; None if only prefills are left, and they may not be preempted."""
    able = [request for request in state.running if prefills or request.decoding]
    if not able:
        return None
    if state.ranking is not None:
        return max(able, key=state.ranking.rank)
    if state.settings.victim == "worst":
        return max(able, key=lambda request: (request.spec.priority, request.number))
    if state.settings.victim == "fewest_generated":
        # Of equal ones the last in the order of the rows, before the prefills, or of admission.
        rows = [one for one in state.rows if one in able]
        rows += [one for one in able if one not in rows]
        return min(reversed(rows), key=lambda one: (one.generated, -one.spec.prompt_tokens))
    return able[-1]


def preempt(state: State, request: Request, step: Step) -> None:
    """Preempt a request: remove it from the batch and the step, and free or swap out its blocks."""
    if request in state.ended:
        preempt_ended(state, request, step)
        return
    scheduled = step.drop(request, refund=state.settings.refund)
    state.batch.pop(request, None)
    state.running.remove(request)
    leave_adapter(state, request)
    step.preempted.append(request)
    if state.copies is not None:
        state.copies.preempted.append(request)
    request.preemptions += 1
    request.attained += 0 if request.left_out else step.start - request.admitted_at
    idle_since = (request.queued_at, request.idle_from) if request.left_out else None
    request.left_out = False
    request.spells.append(Spell(step.start, request.phase))
    if state.ranking is not None:
        state.ranking.accumulators.left_batch(request, finished=False)
    # The KV of a token that is lost is computed again.
    request.computed -= request.pending is not None
    kept = state.memory.blocks_for(request.computed)
    if state.ranking is None:
        # As in vLLM, the prefix cache registers what was scheduled, computed or not.
        state.memory.register_full(request, request.computed + scheduled)
        kept = len(request.blocks) if state.reserve is None else kept
    state.memory.preempt(request)
    swapped = state.settings.swap is not None and state.memory.keep_on_cpu(request, kept)
    if swapped:
        state.copied_out += kept
    else:
        state.memory.lose(request)
    request.drafts = 0
    forget_outcome(state, request)
    state.enqueue(request, step.start)
    if idle_since is not None:
        # It has been idle since it was left out.
        request.queued_at, request.idle_from = idle_since
    if state.ranking is not None:
        state.queue.waiting.append(request)
        state.rank(request, step.start)
    elif swapped:
        state.queue.swapped.append(request)
    elif state.settings.requeue_late:
        step.requeue_after.append(request)
    else:
        _requeue(state, request)


def _requeue(state: State, request: Request) -> None:
    """Queue a victim again: before all others, or behind them."""
    if state.settings.requeue_last:
        state.queue.waiting.append(request)
    else:
        state.queue.requeue_first(request)


def requeue_late_victims(state: State, step: Step) -> None:
    """Queue victims again after the step is formed, each before the one preempted before it."""
    for request in step.requeue_after:
        _requeue(state, request)
