"""Admissions that leave room for outputs to come."""

from __future__ import annotations

from fractions import Fraction

from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.state import State
from paceline.testing.reference.policy_sim.step import Step


def open_reserve(state: State, step: Step) -> None:
    """Admit again where a request has left, a prompt continues or none decodes.

    Tokens of decodes that may sit out are taken from the step's before those of its prefills.
    """
    reserve = state.reserve
    if reserve is not None and reserve.closed is not None:
        continues = any(not one.decoding for one in state.continuing)
        if continues or state.admitted < reserve.closed or not decoding(state):
            reserve.closed = None
    step.free_before = state.memory.free
    if state.settings.mixes:
        step.reserved = len(decoding(state))
        step.left = max(step.left - step.reserved, 0)


def may_admit(state: State) -> bool:
    """Whether requests may be admitted: not between an admission that failed and one that leaves."""
    return state.reserve is None or state.reserve.closed is None


def fits(state: State, step: Step, request: Request, hits: list[int]) -> bool:
    """Whether a request fits beside the outputs to come; if not, no other is tried."""
    reserve = state.reserve
    if reserve is None:
        return True
    _, unheld = state.memory.free_without([], hits)
    page = state.settings.block_tokens
    lacking = request.lacking if request.memory is not None else request.tokens - len(hits) * page
    left = min(request.spec.output_tokens - request.generated, reserve.clip)
    if lacking + left + page < _room(state, step) - unheld * page:
        return True
    _close(state)
    return False


def blocks_of_decodes(state: State) -> int:
    """Return the blocks that the next tokens of all decodes need."""
    decodes = [one for one in state.continuing if one.decoding]
    speculation = state.settings.speculation

    def after(one: Request) -> int:
        tokens = one.computed + speculation.fits(one.computed, 1 + one.drafts)
        return speculation.room(tokens, decodes=True)

    return sum(state.memory.lacking(one, after(one)) for one in decodes)


def blocks_to_come(state: State, request: Request, blocks: int) -> int:
    """Return the blocks that running requests and one with `blocks` blocks will take until they end."""
    if state.settings.allocation != "chunk_if_output_fits":
        return 0

    def at_end(one: Request) -> int:
        return state.memory.blocks_for(
            state.settings.speculation.room(one.spec.prompt_tokens + one.spec.output_tokens, decodes=True)
        )

    counted = state.running + [one for one in state.ended if one not in state.running]
    return max(at_end(request) - blocks, 0) + sum(max(at_end(one) - len(one.blocks), 0) for one in counted)


def passes_queue(state: State) -> bool:
    """Whether the queue is looked at: if requests may be admitted, or a prompt continues."""
    return may_admit(state) or any(not one.decoding for one in state.continuing)


def has_room(state: State, step: Step) -> bool:
    """Whether anything is left beside the outputs to come."""
    return state.reserve is None or _room(state, step) > 0


def charge_admitted(state: State, step: Step, request: Request, tokens: int, unheld: int) -> bool:
    """Charge the tokens of an admission; return whether others may be tried after it."""
    charge(state, step, request, tokens, unheld=unheld)
    room = has_room(state, step)
    if not room:
        _close(state)
    return room


def charge(state: State, step: Step, request: Request, tokens: int, *, unheld: int = 0) -> None:
    """Charge a request's tokens of the step."""
    reserve = state.reserve
    if reserve is None:
        return
    page = state.settings.block_tokens
    ends = tokens >= request.lacking
    output = min(request.spec.output_tokens, reserve.clip) if ends else 0
    step.reserved += -(-tokens // page) * page + page + output + unheld * page


def chunk_room(state: State, step: Step) -> int | None:
    """Return the most tokens of a prompt that continues; None if there is no limit."""
    if state.reserve is None:
        return None
    room = int(_room(state, step))
    return room if room > 0 else None


def end_round(state: State, step: Step) -> None:
    """Take a new share where requests were preempted, and admit again after prefills beside decodes."""
    if state.reserve is None:
        return
    if step.preempted:
        state.reserve.estimate(one for one in decoding(state) if one not in state.ended)
        # Victims are the last of the rows once these are sorted.
        state.rows.sort(key=lambda one: (-_generated(one), one.spec.prompt_tokens))
    if step.prefills and step.decodes:
        state.reserve.closed = None


def end_step(state: State, step: Step) -> None:
    """Count a step of decodes alone in which no request was preempted."""
    if state.reserve is not None and not step.prefills and not step.preempted:
        state.reserve.decays += 1


def _room(state: State, step: Step) -> Fraction:
    assert state.reserve is not None
    to_come = sum(
        min(one.spec.output_tokens - _generated(one), state.reserve.clip) for one in decoding(state)
    )
    free = step.free_before * state.settings.block_tokens
    return free - step.reserved - to_come * state.reserve.share


def decoding(state: State) -> list[Request]:
    """Return the running requests that decode, and those that have ended and are not known to have."""
    ended = [one for one in state.ended if one not in state.running]
    return [one for one in state.running + ended if one.decoding or one in state.ended]


def _generated(request: Request) -> int:
    """Return the tokens that a request has generated, as far as the step that is formed knows."""
    return request.generated - request.hidden


def _close(state: State) -> None:
    assert state.reserve is not None
    if decoding(state):
        state.reserve.closed = state.admitted
