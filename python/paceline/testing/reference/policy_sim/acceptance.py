"""Accepting requests that were offered, and receiving their KV."""

from __future__ import annotations

from paceline.testing.reference.policy_sim.request import Request, Spell
from paceline.testing.reference.policy_sim.reserving import blocks_of_decodes
from paceline.testing.reference.policy_sim.state import State
from paceline.testing.reference.policy_sim.step import Step


def accept_offers(state: State, step: Step, *, count_decodes: bool, formed: bool = False) -> None:
    """Accept the requests that were offered, in order, until one does not fit.

    An accepted request holds the blocks for its KV and one more token; blocks that are cached it shares.
    Beside a reserve, it takes a seat; and where steps are decided ahead, requests are accepted as a step
    starts and the next one is decided (``formed``), unless all is known.
    """
    incoming, ahead = state.incoming, state.settings.schedule_ahead
    if incoming.reserve and not formed and ahead and state.started is not None:
        return
    if formed:
        restore_swapped(state, step, formed=True)
    if state.swapped_to_accept:
        return
    _accept_each(state, step, count_decodes=count_decodes, formed=formed)
    incoming.seen = incoming.received.copy()


def restore_swapped(state: State, step: Step, *, formed: bool = False) -> None:
    """Swap requests in, in order, until one does not fit beside tokens for each active request.

    While one is left, none is accepted, and none of those received since is admitted.
    """
    incoming, memory, reserve = state.incoming, state.memory, state.incoming.reserve
    ahead = state.settings.schedule_ahead and state.started is not None
    if reserve is None or not state.resumes_as_accepted or (ahead and not formed):
        return
    page = state.settings.block_tokens
    while state.queue.swapped:
        request = state.queue.swapped[0]
        wanted = memory.blocks_for(request.computed) * page
        wanted += reserve["tokens"] * (len(_active(state, step)) + 1)
        seats = state.admitted + len(incoming.receiving + incoming.received)
        if seats >= state.settings.max_num_seqs or wanted > memory.free * page:
            return
        state.queue.swapped.remove(request)
        state.copied_in += memory.move_to_gpu(request, request.computed)
        incoming.received.insert(len(incoming.seen), request)
        incoming.seen.append(request)
        incoming.restored.append(request)
        memory.make_room(0)


def _accept_each(state: State, step: Step, *, count_decodes: bool, formed: bool) -> None:
    incoming, memory = state.incoming, state.memory
    while incoming.offered and (step.room > 0 or incoming.reserve):
        handover = incoming.offered[0]
        request = handover.request
        taken = state.seats_taken(step, count_decodes=count_decodes)
        if incoming.reserve:
            taken = state.admitted + len(incoming.receiving + incoming.received)
        seated = taken < state.settings.max_num_seqs
        if not (
            seated
            and (formed or state.sees(handover.since))
            and incoming.may_accept(memory.free + memory.pool.held)
        ):
            return
        hits = memory.hits(request, request.tokens)
        memory.look_up(request)
        room = incoming.tokens_of(request)
        new = memory.blocks_for(room) - len(hits)
        _, unheld = memory.free_without([], hits)
        # Where a preempted request may lose a token, none is preempted for one that is accepted.
        keeps = state.settings.drop_unseen and incoming.reserve is None
        kept = blocks_of_decodes(state) + state.spare if keeps else 0
        if new + unheld + state.watermark + kept > memory.free:
            return
        if not _leaves_reserve(state, step, request, len(hits) * state.settings.block_tokens, (new, unheld)):
            return
        incoming.offered.remove(handover)
        memory.attach_prefix(request, hits, counted=False)
        memory.grow(request, room)
        memory.make_room(0)
        request.place, request.memory = "receiving", "gpu"
        if state.tier is not None:
            state.tier.given(request)
        present = max(len(hits) * state.settings.block_tokens, handover.copied)
        handover.lacking = max(request.computed - present, 0)
        incoming.accepted.append(handover)
        incoming.receiving.append(request)
        if not handover.early and (
            incoming.at_once or (handover.lacking == 0 and not state.settings.state_bytes)
        ):
            receive(state, request, step.start)


def accept_formed(state: State, step: Step) -> None:
    """Accept requests as a step starts that was decided ahead, beside a reserve."""
    if state.incoming.reserve:
        accept_offers(state, step, count_decodes=True, formed=True)


def _leaves_reserve(state: State, step: Step, request: Request, hit: int, blocks: tuple[int, int]) -> bool:
    """Whether an acceptance leaves tokens for each active request, and for the longest to finish alone.

    ``blocks``: those that it takes of its own, and of the cached ones that no request holds.
    """
    reserve = state.incoming.reserve
    if reserve is None:
        return True
    new, unheld = blocks
    running = _counted(state, step)
    held = sum(one.spec.prompt_tokens + one.generated - one.hidden for one in running)

    def output(one: Request) -> int:
        return min(one.spec.last_token, reserve["clip"])

    longest = max((one.spec.prompt_tokens + output(one) - held for one in running), default=0)
    active = len(_active(state, step))
    wanted = max(
        new * state.settings.block_tokens + reserve["tokens"],
        request.computed - hit + min(request.spec.output_tokens, reserve["clip"]) - held,
    )
    free = (state.memory.free - unheld) * state.settings.block_tokens
    return bool(wanted <= free - max(reserve["tokens"] * active, longest))


def _counted(state: State, step: Step) -> list[Request]:
    """Return the requests that count as running, also those that just finished or run past their ends."""
    ended = [one for one in state.ended + step.discarded if one not in state.running]
    return [*state.running, *dict.fromkeys(ended), *state.incoming.just_finished(step.start)]


def _active(state: State, step: Step) -> list[Request]:
    """Return these, and the requests that were accepted and do not run."""
    return [*_counted(state, step), *state.incoming.receiving, *state.incoming.received]


def receive(state: State, request: Request, now: int) -> None:
    """Receive the KV of an accepted request, which waits with its blocks from now on."""
    state.incoming.receiving.remove(request)
    state.incoming.received.append(request)
    state.memory.register_full(request, request.computed)
    request.spells.append(Spell(now, request.phase))
    state.enqueue(request, now)
    request.level = 0
    if state.ranking is not None:
        state.queue.waiting.append(request)
        state.enter_ranking(request, now)


def next_received(state: State) -> Request | None:
    """Return the received request that is admitted next, if the step that is formed sees one."""
    first = next(iter(state.incoming.received), None)
    if state.resumes_as_accepted:
        return first if first in state.incoming.seen else None
    return first if first is not None and state.sees(first.queued_at) else None


def withdraw(state: State, request: Request, now: int) -> None:
    """Withdraw the offer of a request: it has no KV, and waits to compute all of it again."""
    state.incoming.offered = [one for one in state.incoming.offered if one.request is not request]
    request.computed, request.memory, request.decoding = 0, None, False
    request.spells.append(Spell(now, request.phase))
    state.enqueue(request, now)
    request.level = 0
    queue = state.queue
    (queue.unknown if state.settings.holds_arrivals else queue.waiting).append(request)
    state.enter_ranking(request, now)
