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
    incoming, memory, ahead = state.incoming, state.memory, state.settings.schedule_ahead
    if incoming.reserve and not formed and ahead and state.started is not None:
        return
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
        kept = blocks_of_decodes(state) + state.spare if state.settings.drop_unseen else 0
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
    incoming, reserve = state.incoming, state.incoming.reserve
    if reserve is None:
        return True
    new, unheld = blocks
    ended = [one for one in state.ended if one not in state.running]
    running = [(one.spec.prompt_tokens, one.generated - one.hidden, one) for one in state.running + ended]
    running += [(one.spec.prompt_tokens, one.generated, one) for one in incoming.just_finished(step.start)]
    held = sum(prompt + generated for prompt, generated, _ in running)

    def output(one: Request) -> int:
        return min(one.spec.last_token, reserve["clip"])

    longest = max((prompt + output(one) - held for prompt, _, one in running), default=0)
    active = len(running) + len(incoming.receiving + incoming.received)
    wanted = max(
        new * state.settings.block_tokens + reserve["tokens"],
        request.computed - hit + min(request.spec.output_tokens, reserve["clip"]) - held,
    )
    free = (state.memory.free - unheld) * state.settings.block_tokens
    return bool(wanted <= free - max(reserve["tokens"] * active, longest))


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
