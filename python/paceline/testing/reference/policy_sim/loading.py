"""Requests that wait while chunks of their prefix are loaded from a tier."""

from __future__ import annotations

from paceline.testing.reference.policy_sim.offer import Offer, padding_of
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.state import State
from paceline.testing.reference.policy_sim.step import Step


def offer_of_load(state: State, request: Request, hits: list[int], loaded: int) -> Offer:
    """Return what the load of a request's chunks would need now: blocks that no prefill will lack."""
    memory, settings = state.memory, state.settings
    room = len(hits) * settings.block_tokens + loaded
    drafts = memory.blocks_for(settings.speculation.step_slots)
    now = memory.blocks_for(room) - len(hits) + _reserved(state) + drafts
    whole = 0 if settings.allocation == "chunk" else memory.blocks_for(request.tokens) - len(hits)
    return Offer(0, room, max(now, whole) + state.watermark, hits, True, "admitted", loaded, waits=True)


def _reserved(state: State) -> int:
    """Return the blocks that prefills and loaded requests lack for their tokens and a step with drafts."""
    assert state.tier is not None
    slots = state.settings.speculation.step_slots
    filling = [request for request in state.running if not request.decoding] + state.tier.loading
    return sum(state.memory.lacking(request, request.tokens + slots) for request in filling)


def begin_load(state: State, request: Request, offered: Offer, now: int) -> None:
    """Give a request the blocks that its chunks are loaded into; it waits."""
    assert state.tier is not None
    memory, cached = state.memory, len(offered.hits) * state.settings.block_tokens
    state.queue.waiting.remove(request)
    memory.attach_prefix(request, offered.hits)
    memory.grow(request, offered.room)
    request.computed, request.memory, request.load = offered.room, "gpu", (now, cached, offered.loaded)
    state.tier.allocated(request, cached, offered.loaded, sync=False)


def offer_of_loaded(state: State, request: Request, step: Step, *, chunked: bool) -> Offer:
    """Return what the admission of a request would need now whose chunks have been loaded.

    Its blocks enter the prefix cache now. If all its tokens were loaded, it computes the last one again.
    """
    memory, settings = state.memory, state.settings
    assert state.tier is not None
    state.tier.whole_loads += request.computed == request.tokens and not state.tier.use(request).seen
    state.tier.use(request).seen = True
    memory.register_full(request, request.computed)
    request.computed = min(request.computed, request.tokens - 1)
    padding = padding_of(state, request, step, request.computed)
    wanted = step.cut(request.lacking + padding) if chunked else request.lacking + padding
    tokens = min(wanted, step.room)
    room = settings.speculation.room(request.computed + tokens, decodes=False)
    reserved = room if settings.allocation == "chunk" else max(room, request.tokens)
    new = memory.lacking(request, reserved) + state.watermark
    return Offer(tokens, room, new, [], (chunked and not padding) or tokens == wanted, "admitted")


def end_load(state: State, request: Request, now: int) -> None:
    """Note that a request is admitted after its load."""
    assert state.tier is not None
    assert request.load is not None
    began, cached, loaded = request.load
    request.load_wait += now - began
    fetched = state.tier.take_fetched(request, cached, loaded)
    if request.scheduled is None:
        request.hit_tokens, request.loaded_tokens, request.store_tokens = cached, loaded, fetched
    request.load = None
    state.tier.admitted(request)


def cancel_load(state: State, request: Request) -> None:
    """Have a request leave that waits and was cancelled, and whose chunks may be loaded."""
    assert state.tier is not None
    if request.load is not None and not state.tier.use(request).seen:
        # The prefix cache does not know the blocks into which chunks are loaded.
        request.computed = request.load[1]
    if request in state.incoming.received:
        state.incoming.received.remove(request)
    request.place, request.load, request.memory = "gone", None, None
    if state.tier.leave(request):
        state.tier.free(request)
    elif request.scheduled is not None or request.blocks:
        state.deferred.append(request)
