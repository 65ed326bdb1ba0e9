"""Stages that schedule running requests."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.testing.reference.policy_sim.preemption import choose_victim, preempt
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.reserving import charge, chunk_room, decoding
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
    grown = step.grown
    while position < len(state.running) and (rules.most is None or len(resumed) < rules.most):
        if step.room <= 0 and (rules.charged or rules.prefills):
            break
        request = state.running[position]
        if request in step.tokens or not (request.decoding or rules.prefills):
            position += 1
            continue
        wanted = _wanted(state, step, request)
        if wanted == 0:
            position += 1
            continue
        tokens = step.cut_to(wanted, max(step.room, 1))
        if tokens == 0:
            position += 1
            continue
        # A step that is decided ahead counts all drafts of the step before as computed.
        computed = request.computed + request.given_up
        room = state.settings.speculation.room(computed + tokens, decodes=request.decoding)
        needed = max(state.memory.lacking(request, room), state.spare)
        stops = False
        while request.running and state.memory.free < needed:
            state.memory.give_up_cached()
            victim = choose_victim(state, prefills=rules.over_prefills)
            # With a tier, no block is freed that a step in flight writes to.
            if victim is None or (state.tier is not None and victim in state.in_flight):
                stops = True
                break
            if state.running.index(victim) < position:
                position -= 1
            # One that an earlier stage scheduled, or that has ended, was not counted here.
            resumed.discard(victim)
            preempt(state, victim, step)
            _make_room(state, step, grown)
            stops = victim is request and state.settings.stop_at_own_preemption
        if stops:
            break
        if not request.running:
            continue
        before = len(request.blocks)
        state.memory.grow(request, room)
        grown[request] = len(request.blocks) - before
        if not request.in_set:
            state.memory.register_full(request, computed + tokens)
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


def _make_room(state: State, step: Step, grown: dict[Request, int]) -> None:
    """Evict for the coming tokens of the decodes that are left, where admissions reserve these.

    Those that the step has given blocks to, as many as ``grown`` says, have some of that room already.
    """
    if state.reserve is not None:
        decodes = decoding(state)
        page = state.settings.block_tokens
        given = sum(grown.get(one, 0) for one in decodes if one in step.tokens)
        tokens = state.reserve.after * len(decodes)
        state.memory.make_room(-(-tokens // page) - given)


def _wanted(state: State, step: Step, request: Request) -> int:
    """Return the tokens that a request asks for: a decode also for its drafts."""
    speculation = state.settings.speculation
    if request in state.ended and not (speculation.drafts and request.hidden):
        return int(state.settings.unseen_ends and request.done)
    if not request.decoding or request.lacking == 0:
        # Of a request that lacks nothing, a batch that is under way yields a token.
        return step.cut(request.lacking)
    if not speculation.drafts:
        return 1
    if request.hidden:
        # It is sure to have one of these tokens. If that is its last, it has ended; if not, it may go on.
        if request.generated - request.hidden + 1 >= request.spec.last_token:
            return 0
        return step.cut(max(speculation.fits(request.computed + request.given_up, 1 + request.drafts), 0))
    return step.cut(speculation.fits(request.computed, request.lacking + request.drafts))


def resume_prefills(state: State, step: Step) -> None:
    """Schedule running prefills with the tokens that are left, in the order of admission.

    No request is preempted for them: if one lacks blocks, it waits for free ones, and so do later ones.
    """
    for request in state.running:
        tokens = step.cut_to(step.cut(request.lacking), step.room)
        room = state.settings.speculation.room(request.computed + tokens, decodes=False)
        if request.decoding or request.lacking == 0 or request in step.tokens or request in state.ended:
            continue
        most = chunk_room(state, step)
        if most is not None and most < tokens:
            tokens = step.cut_to(tokens, most)
            room = state.settings.speculation.room(request.computed + tokens, decodes=False)
        if step.room <= 0:
            break
        if tokens <= 0:
            continue
        if state.memory.lacking(request, room) > state.memory.free:
            break
        state.memory.grow(request, room)
        state.memory.register_full(request, request.computed + tokens)
        step.add(request, tokens, "chunk")
        charge(state, step, request, tokens)
