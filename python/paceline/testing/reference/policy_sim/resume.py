"""Stages that schedule running requests."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.testing.reference.policy_sim.preemption import choose_victim, preempt
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.state import State
from paceline.testing.reference.policy_sim.step import Step


@dataclass(frozen=True, slots=True)
class ResumeRules:
    """Which running requests a stage schedules.

    Attributes
    ----------
    prefills : bool
        Running prefills too, or only decodes.
    over_prefills : bool
        Whether prefills can be preempted for decodes.
    charged : bool
        Whether decodes use up the step's tokens.
    most : int or None
        The most requests that are scheduled; None: no limit.
    """

    prefills: bool = True
    over_prefills: bool = True
    charged: bool = True
    most: int | None = None


def resume(state: State, step: Step, rules: ResumeRules) -> None:
    """Schedule running requests in the order of admission, as far as tokens and blocks allow.

    A request that is already scheduled in this step is skipped.
    """
    position = 0
    resumed: set[Request] = set()
    while position < len(state.running) and (rules.most is None or len(resumed) < rules.most):
        if step.room <= 0 and (rules.charged or rules.prefills):
            break
        request = state.running[position]
        if request in step.tokens or not (request.decoding or rules.prefills):
            position += 1
            continue
        tokens = min(_wanted(state, step, request), max(step.room, 1))
        room = state.settings.speculation.room(request.computed + tokens)
        needed = max(state.memory.lacking(request, room), state.spare)
        stops = False
        while request.running and state.memory.free < needed:
            victim = choose_victim(state, prefills=rules.over_prefills)
            if victim is None:
                stops = True
                break
            if state.running.index(victim) < position:
                position -= 1
            # One that an earlier stage scheduled was not counted here.
            resumed.discard(victim)
            preempt(state, victim, step)
            stops = victim is request and state.settings.stop_at_own_preemption
        if stops:
            break
        if not request.running:
            continue
        state.memory.grow(request, room)
        if not request.in_set:
            state.memory.register_full(request, request.computed + tokens)
        step.add(
            request,
            tokens,
            "decode" if request.decoding else "chunk",
            charged=rules.charged or not request.decoding,
        )
        resumed.add(request)
        position += 1
    # Only requests that decode at every step are in the decode set.
    for request in state.running[position:]:
        if request not in step.tokens:
            state.memory.leave_set(request)


def _wanted(state: State, step: Step, request: Request) -> int:
    """Return the tokens that a request asks for: a decode also for its drafts."""
    if not request.decoding:
        return step.cut(request.lacking)
    speculation = state.settings.speculation
    if not speculation.drafts:
        return 1
    return step.cut(speculation.fits(request.computed, request.lacking + request.drafts))


def resume_prefills(state: State, step: Step) -> None:
    """Schedule running prefills with the tokens that are left, in the order of admission.

    No request is preempted for them: if one lacks blocks, it waits for free ones, and so do later ones.
    """
    for request in state.running:
        tokens = min(step.cut(request.lacking), step.room)
        room = state.settings.speculation.room(request.computed + tokens)
        if request.decoding or request in step.tokens:
            continue
        if tokens <= 0:
            break
        if state.memory.lacking(request, room) > state.memory.free:
            break
        state.memory.grow(request, room)
        state.memory.register_full(request, request.computed + tokens)
        step.add(request, tokens, "chunk")
