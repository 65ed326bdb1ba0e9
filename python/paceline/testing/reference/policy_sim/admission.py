"""Stages that admit requests: from the queue, and from the CPU's memory."""

from __future__ import annotations

from typing import Any

from paceline.testing.reference.policy_sim.acceptance import accept_offers, next_received, restore_swapped
from paceline.testing.reference.policy_sim.hosted_memory import HostedMemory
from paceline.testing.reference.policy_sim.joining import enter_adapter, is_passed_over, prefills_are_full
from paceline.testing.reference.policy_sim.loading import begin_load, end_load, offer_of_load, offer_of_loaded
from paceline.testing.reference.policy_sim.offer import Offer, padding_of
from paceline.testing.reference.policy_sim.preemption import preempt
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.reserving import (
    blocks_to_come,
    charge_admitted,
    fits,
    has_room,
    may_admit,
    passes_queue,
)
from paceline.testing.reference.policy_sim.state import State
from paceline.testing.reference.policy_sim.step import Part, Step
from paceline.testing.reference.policy_sim.tree_memory import TreeMemory


def offer(state: State, request: Request, step: Step, *, chunked: bool) -> Offer | None:
    """Return what the admission of a request would need now; None if a tier does not know yet."""
    memory, settings = state.memory, state.settings
    if request in state.incoming.received:
        if state.resumes_as_accepted:
            # Its next token is that of a decode.
            return Offer(0, request.computed, 0, [], True, "landed")
        # It holds the blocks for its next token.
        tokens = request.lacking
        room = settings.speculation.room(request.computed + tokens, decodes=True)
        return Offer(tokens, room, memory.lacking(request, room), [], tokens <= step.room, "landed")
    if state.tier is not None and request in state.tier.loading:
        return offer_of_loaded(state, request, step, chunked=chunked)
    if request.memory is not None:
        # Its KV is kept. An unfinished prefill may be cut, the one token of a decode may not.
        wanted = request.lacking if request.decoding or not chunked else step.cut(request.lacking)
        tokens = wanted if request.decoding or not chunked else min(wanted, step.room)
        room = settings.speculation.room(request.computed + tokens, decodes=request.decoding)
        new = max(memory.blocks_for(room), len(request.blocks)) + state.watermark
        if state.ranking is not None:
            new += state.spare
        part: Part = "landed" if request.memory == "host" else "swapped_in_chunk"
        if request.memory == "cpu" and request.decoding:
            part = "swapped_in_decode"
        return Offer(tokens, room, new, [], tokens <= step.room, part)
    if state.copies is not None and state.copies.awaits(request, step.start):
        return None
    hits = memory.hits(request, request.tokens)
    memory.look_up(request)
    hit, loaded = len(hits) * settings.block_tokens, 0
    if state.tier is not None:
        found = state.tier.look_up(request, hit)
        if found is None:
            return None
        loaded, sync = found
        if loaded and not sync:
            return offer_of_load(state, request, hits, loaded)
        hit += loaded
    if isinstance(memory, HostedMemory):
        loaded = memory.loadable(request)
        hit += loaded
    padding = padding_of(state, request, step, hit)
    wanted = request.tokens - hit + padding
    wanted = step.cut(wanted) if chunked else wanted
    tokens = step.cut_first(wanted, step.room) if chunked else min(wanted, step.room)
    room = settings.speculation.room(hit + tokens, decodes=False)
    reserved = room if settings.allocation == "chunk" else max(room, request.tokens)
    new = memory.blocks_for(reserved) - len(hits) + state.watermark
    new += blocks_to_come(state, request, memory.blocks_for(reserved))
    room = max(room, request.tokens) if settings.allocation == "sequence" else room
    # A padding is not cut.
    affordable = (chunked and not padding and tokens > 0) or tokens == wanted
    return Offer(tokens, room, new, hits, affordable, "admitted", loaded)


def admit(state: State, step: Step, stage: dict[str, Any], *, displaces: bool = False) -> None:
    """Accept offers, then admit requests, in the queue's order, until one does not fit.

    If a seat is free, received requests are admitted first, in the order of receipt.
    If nothing is left beside an output reserve, the first request is tried even without tokens.
    If requests are ranked and displacement is allowed, worse-ranked running requests are preempted to admit a
    better-ranked waiting one.
    """
    chunked: bool = stage["chunked"]
    seats: bool = stage["count_decodes"]
    displaced = 0
    passed: list[Request] = []
    admitted = len(step.admitted)
    if not _opens(state, step, count_decodes=seats):
        return
    ends = not has_room(state, step)
    while step.room > 0 or ends:
        seated = state.reserve is None and _has_seat(state, step, count_decodes=seats)
        received = next_received(state) if seated else None
        if state.tier is not None:
            passed += [one for one in state.tier.loading if state.tier.is_loading(one) and one not in passed]
        request = received or _next_queued(state, step, passed)
        if request is None:
            seated = _has_seat(state, step, count_decodes=seats) and not passed
            if seated and len(step.admitted) == admitted and _add_quanta(state):
                continue
            return
        if state.ranking is not None and request in step.preempted:
            return
        if state.ranking is None and not _has_seat(state, step, count_decodes=seats):
            return
        if not chunked and _has_outgrown_budget(state, request):
            _drop(state, request)
            continue
        offered = offer(state, request, step, chunked=chunked)
        if offered is None:
            if state.tier is not None:
                state.tier.put_off(request)
            passed.append(request)
            continue
        if received is None and request.memory is None:
            if prefills_are_full(state):
                return
            if is_passed_over(state, step, request, len(offered.hits) * state.settings.block_tokens):
                passed.append(request)
                continue
        if not fits(state, step, request, offered.hits):
            return
        victims = _to_displace(state, request, offered, step, count_decodes=seats)
        if victims is None or not offered.whole:
            return
        if victims:
            displaced += len(victims)
            most = state.settings.admission.get("most", 0)
            if not displaces or 0 < most < displaced:
                return
            for victim in victims:
                preempt(state, victim, step)
        if offered.waits:
            begin_load(state, request, offered, step.start)
            passed.append(request)
            continue
        _, unheld = state.memory.free_without([], offered.hits)
        place_in_batch(state, request, offered, step)
        loaded = offered.loaded // state.settings.block_tokens
        if not charge_admitted(state, step, request, offered.tokens, unheld + loaded):
            return


def _next_queued(state: State, step: Step, passed: list[Request]) -> Request | None:
    """Return the request that is admitted next of those without KV here; none where prompts wait."""
    queued = [] if step.received_alone else state.queue.in_order
    return next((one for one in queued if one not in passed), None)


def _opens(state: State, step: Step, *, count_decodes: bool) -> bool:
    """Accept offers, and look at the queue; return whether requests may be admitted."""
    accept_offers(state, step, count_decodes=count_decodes)
    if state.reserve is not None:
        _admit_received(state, step, count_decodes=count_decodes)
    if not passes_queue(state):
        return False
    state.begin_pass(seated=_has_seat(state, step, count_decodes=count_decodes))
    return may_admit(state)


def _admit_received(state: State, step: Step, *, count_decodes: bool) -> None:
    """Admit received requests, which hold their blocks: nothing is left for outputs to come."""
    finished = len(state.incoming.just_finished(step.start))
    while step.room > 0 and _has_seat(state, step, count_decodes=count_decodes, but=finished):
        request = next_received(state)
        offered = None if request is None else offer(state, request, step, chunked=True)
        if request is None or offered is None or not offered.whole or offered.new > state.memory.free:
            return
        place_in_batch(state, request, offered, step)


def _add_quanta(state: State) -> bool:
    """Add quanta until a waiting request may be admitted; return whether one may."""
    if state.ranking is None or not state.queue.waiting:
        return False
    while state.queue.first is None and state.ranking.accumulators.add_quanta():
        pass
    return state.queue.first is not None


def _has_seat(state: State, step: Step, *, count_decodes: bool, but: int = 0) -> bool:
    return state.seats_taken(step, count_decodes=count_decodes) + but < state.settings.max_num_seqs


def _to_displace(
    state: State, request: Request, offered: Offer, step: Step, *, count_decodes: bool
) -> list[Request] | None:
    """Return the requests to preempt to admit one, the worst first; None if that is not enough.

    No request is displaced in the step in which it was admitted.
    """
    ranking = state.ranking
    worse: list[Request] = []
    if ranking is not None:
        worse = [
            one
            for one in state.running
            if ranking.rank(one) > ranking.rank(request) and one not in step.admitted
        ]
        worse.sort(key=ranking.rank, reverse=True)
    for count in range(len(worse) + 1):
        free, unheld = state.memory.free_without(worse[:count], offered.hits)
        seats = state.seats_taken(step, count_decodes=count_decodes, without=worse[:count])
        if offered.new + unheld <= free and seats < state.settings.max_num_seqs:
            return worse[:count]
    return None


def place_in_batch(state: State, request: Request, offered: Offer, step: Step) -> None:
    """Admit a request: append it to the running requests, and allocate its blocks and tokens."""
    memory, had_kv = state.memory, request.memory is not None
    if state.tier is None or request not in state.tier.loading:
        state.queue.remove(request)
    state.running.append(request)
    enter_adapter(state, request)
    if request in state.incoming.received:
        memory.grow(request, offered.room)
        if state.incoming.admit(request):
            request.received_wait += step.start - request.spells[-1].start
            step.handed_over.append(request)
        if isinstance(memory, TreeMemory):
            # It decodes from now on, and its prompt is in the tree.
            state.rows = [one for one in state.rows if one is not request] + [request]
            memory.insert(request)
        if state.tier is not None:
            state.tier.admitted(request)
    elif state.tier is not None and request.load is not None:
        memory.grow(request, offered.room)
        end_load(state, request, step.start)
    elif request.memory is not None:
        state.copied_in += memory.move_to_gpu(request, offered.room)
        if state.tier is not None:
            state.tier.admitted(request)
    else:
        memory.attach_prefix(request, offered.hits)
        cached = len(offered.hits) * state.settings.block_tokens
        request.computed = cached + offered.loaded
        read = 0 if state.copies is None else state.copies.admitted(request, cached, offered.loaded)
        if request.scheduled is None:
            request.hit_tokens, request.loaded_tokens = cached, offered.loaded
            request.store_tokens = read
        if offered.loaded and isinstance(memory, HostedMemory):
            memory.load(request, offered.loaded)
            step.host_loads[request] = offered.loaded
        memory.grow(request, offered.room)
        request.memory = "gpu"
        if state.tier is not None:
            state.tier.allocated(request, cached, offered.loaded, sync=True)
            fetched = state.tier.take_fetched(request, cached, offered.loaded)
            request.store_tokens = fetched if request.scheduled is None else request.store_tokens
    memory.register_full(request, request.computed + offered.tokens)
    request.place = "running"
    request.admitted_at = step.start
    if state.ranking is not None:
        state.ranking.accumulators.admitted(
            request, first=request.scheduled is None, computes=0 if had_kv else request.lacking
        )
    if request.scheduled is None:
        request.scheduled = step.start
    else:
        request.spells[-1].end = step.start
    if offered.tokens > 0:
        step.add(request, offered.tokens, offered.part)
    step.admitted.append(request)
    state.rank(request, step.start)


def _has_outgrown_budget(state: State, request: Request) -> bool:
    """Whether a request lacks more tokens than a step may compute, and no batch is under way with it."""
    under_way = any(request in other.tokens for other in state.under_way())
    return request.lacking > state.settings.max_num_batched_tokens and not under_way


def _drop(state: State, request: Request) -> None:
    """Drop a request with more tokens than a step has, as prompts are not cut."""
    state.queue.remove(request)
    request.rejected = "max_num_batched_tokens"
    request.place = "gone"
    state.dropped.append(request)


def has_gathered(state: State, gather: dict[str, int], now: int) -> bool:
    """Whether a batch may start: nothing runs, and enough requests wait or the head has waited enough.

    A request that was in a batch before does not wait for others again, nor does one that is handed over.
    """
    first = state.queue.first
    if state.admitted > 0:
        return False
    if state.incoming.offered or state.incoming.received:
        return True
    if first is None:
        return False
    deadline = first.spec.arrival + gather["wait"]
    if len(state.queue.waiting) >= gather["size"] or deadline <= now or first.scheduled is not None:
        return True
    state.wakes = deadline
    return False


def swap_in(state: State, step: Step) -> None:
    """Resume swapped-out requests, in order, until one does not fit.

    An unfinished prefill resumes only with all tokens that it lacks; it is cut only if it lacks more than any
    step has. If a step has either prefills or decodes, no prefill joins decodes.
    """
    settings, memory = state.settings, state.memory
    if state.resumes_as_accepted:
        restore_swapped(state, step)
        return
    while state.queue.swapped:
        request = state.queue.swapped[0]
        if settings.exclusive_prefill and not request.decoding and step.decodes_reached and step.decodes:
            return
        wanted = request.lacking
        tokens = min(wanted, step.room) if wanted > step.budget else wanted
        if not 0 < tokens <= step.room or state.admitted >= settings.max_num_seqs:
            return
        room = settings.speculation.room(request.computed + tokens, decodes=request.decoding)
        held, grown = len(request.blocks), memory.blocks_for(room)
        # The spare block may be the one that the token of a decode fills.
        needed = max(held + state.spare, grown) if request.decoding else max(held, grown) + state.spare
        if needed + state.watermark > memory.free:
            return
        part: Part = "swapped_in_decode" if request.decoding else "swapped_in_chunk"
        place_in_batch(state, request, Offer(tokens, room, needed, [], True, part), step)
