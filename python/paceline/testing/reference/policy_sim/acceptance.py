"""Accepting requests that were offered, and receiving their KV."""

from __future__ import annotations

from paceline.testing.reference.policy_sim.request import Request, Spell
from paceline.testing.reference.policy_sim.reserving import blocks_of_decodes
from paceline.testing.reference.policy_sim.state import State
from paceline.testing.reference.policy_sim.step import Step


def accept_offers(state: State, step: Step, *, count_decodes: bool) -> None:
    """Accept the requests that were offered, in order, until one does not fit.

    An accepted request holds the blocks for its KV and one more token; blocks that are cached it shares.
    """
    incoming, memory = state.incoming, state.memory
    while incoming.offered and step.room > 0:
        handover = incoming.offered[0]
        request = handover.request
        seated = state.seats_taken(step, count_decodes=count_decodes) < state.settings.max_num_seqs
        if not (
            seated and state.sees(handover.since) and incoming.may_accept(memory.free + memory.pool.held)
        ):
            return
        hits = memory.hits(request, request.tokens)
        memory.look_up(request)
        new = memory.blocks_for(request.computed + 1) - len(hits)
        _, unheld = memory.free_without([], hits)
        # Where a preempted request may lose a token, none is preempted for one that is accepted.
        kept = blocks_of_decodes(state) + state.spare if state.settings.drop_unseen else 0
        if new + unheld + state.watermark + kept > memory.free:
            return
        incoming.offered.remove(handover)
        memory.attach_prefix(request, hits, counted=False)
        memory.grow(request, request.computed + 1)
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
