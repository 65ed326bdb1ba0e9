"""The stage that selects the requests of each step anew, by rank, and keeps the memory of those left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paceline.testing.reference.policy_sim.admission import place_in_batch
from paceline.testing.reference.policy_sim.offer import Offer
from paceline.testing.reference.policy_sim.preemption import preempt
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.state import State
from paceline.testing.reference.policy_sim.step import Part, Step


@dataclass(frozen=True, slots=True)
class Selected:
    """A selected request: the tokens that it computes, and the blocks that must be free for it."""

    request: Request
    tokens: int
    blocks: int


def select(state: State, step: Step, stage: dict[str, Any]) -> None:
    """Select requests in the order of ranks, make their blocks free, and schedule them.

    Tokens and seats alone decide which requests are selected. If blocks are lacking, running requests that
    were not selected are preempted, the worst first; then selected ones are dropped, the worst first.
    """
    reserve = state.watermark + stage["reserve_blocks"]
    selected = _by_rank(state, step, stage)
    _make_room(state, step, selected, reserve)
    chosen = [one.request for one in selected]
    for request in state.running:
        if request not in chosen and not request.left_out:
            _leave_out(state, request, step)
    for one in selected:
        _schedule(state, step, one, charged=stage["charged"] or not one.request.decoding)


def _by_rank(state: State, step: Step, stage: dict[str, Any]) -> list[Selected]:
    assert state.ranking is not None
    settings, left = state.settings, step.left
    full = state.memory.cpu_pool.free < stage["swap_reserve_blocks"]
    selected: list[Selected] = []
    for request in sorted(state.running + state.queue.waiting, key=state.ranking.rank):
        if left <= 0 or len(selected) >= settings.max_num_seqs:
            break
        if request.memory is None:
            if not stage["chunked"] and request.lacking > settings.max_num_batched_tokens:
                state.queue.remove(request)
                request.rejected, request.place = "max_num_batched_tokens", "gone"
                state.dropped.append(request)
                continue
            if full:
                continue
        tokens = request.lacking
        if stage["chunked"] and not request.decoding:
            tokens = min(step.cut(tokens), left)
        if tokens > left:
            break
        left -= tokens if stage["charged"] or not request.decoding else 0
        selected.append(Selected(request, tokens, _blocks(state, request, tokens)))
    return selected


def _blocks(state: State, request: Request, tokens: int) -> int:
    """Return the blocks that must be free for a request to compute some tokens."""
    memory, own = state.memory, state.memory.blocks_for(request.computed)
    filled = memory.blocks_for(request.computed + tokens)
    if request.memory == "gpu":
        return max(filled - len(request.blocks), state.spare)
    if request.memory is not None:
        return max(filled, own + state.spare)
    return filled if state.settings.allocation == "chunk" else memory.blocks_for(request.tokens)


def _make_room(state: State, step: Step, selected: list[Selected], reserve: int) -> None:
    assert state.ranking is not None

    def lacks() -> bool:
        return sum(one.blocks for one in selected) + reserve > state.memory.free

    chosen = [one.request for one in selected]
    others = [request for request in state.running if request not in chosen]
    for request in sorted(others, key=state.ranking.rank, reverse=True):
        if lacks():
            preempt(state, request, step)
    while selected and lacks():
        dropped = selected.pop().request
        if dropped.running:
            preempt(state, dropped, step)


def _leave_out(state: State, request: Request, step: Step) -> None:
    """Leave a running request out of the step: it keeps its blocks and is idle from now on."""
    request.attained += step.start - request.admitted_at
    request.queued_at, request.idle_from = step.start, state.formed
    request.left_out = True
    state.memory.leave_set(request)
    state.rank(request, step.start)


def _schedule(state: State, step: Step, one: Selected, *, charged: bool) -> None:
    request, tokens = one.request, one.tokens
    if not request.running:
        part: Part = "admitted" if request.memory is None else "landed"
        if request.memory == "cpu":
            part = "swapped_in_decode" if request.decoding else "swapped_in_chunk"
        whole = request.memory is None and state.settings.allocation == "sequence"
        room = request.tokens if whole else request.computed + tokens
        place_in_batch(state, request, Offer(tokens, room, one.blocks, [], True, part), step)
        return
    state.memory.grow(request, request.computed + tokens)
    step.add(request, tokens, "decode" if request.decoding else "chunk", charged=charged)
    if request.left_out:
        request.left_out, request.admitted_at = False, step.start
        state.rank(request, step.start)
