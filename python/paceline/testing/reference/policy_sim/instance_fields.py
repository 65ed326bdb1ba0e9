"""The fields of an instance that expressions read."""

from __future__ import annotations

from collections.abc import Callable

from paceline.testing.reference.policy_sim.pacing import Pace
from paceline.testing.reference.policy_sim.replica import Replica
from paceline.testing.reference.policy_sim.request import ANSWERING, Request
from paceline.testing.reference.policy_sim.request_fields import seconds, slack_ticks

_LATEST = 64  # steps over which the mean interval is taken


def instance_field(
    name: str, replica: Replica, now: int, pace: Pace | None, request: Request | None, position: int | None
) -> float:
    """Return a field of an instance, times in seconds; ``position`` is a class or a gauge."""
    if name in _ALONE:
        return _ALONE[name](replica)
    if name == "gauge":
        return replica.gauges.get(position, 0.0)
    if name == "answering_on_pace":
        return on_pace(replica, pace, now)
    if name == "class_requests":
        return sum(one.position == position for one in replica.requests)
    assert request is not None, name
    return _OF_A_REQUEST[name](replica, request)


def on_pace(replica: Replica, pace: Pace | None, now: int) -> bool:
    """Whether no answering request of an instance keeps its reader waiting."""
    if pace is None:
        return True
    left = [slack_ticks(request, pace, now) for request in replica.requests]
    return all(ticks > 0 for ticks in left if ticks is not None)


def _count(condition: Callable[[Request], bool]) -> Callable[[Replica], int]:
    return lambda at: sum(condition(request) for request in at.requests)


def _kv(*memories: str) -> Callable[[Replica], int]:
    return lambda at: sum(request.computed for request in at.requests if request.memory in memories)


def _sent(at: Replica) -> int:
    """KV of requests that left and whose KV has not been read."""
    return sum(handover.tokens for handover in at.outgoing)


def _reserved(at: Replica) -> int:
    """KV that is reserved for requests which are still in the last step of their prompt elsewhere."""
    return at.scheduler.state.incoming.reserved_tokens


def _kv_usage(at: Replica) -> float:
    return (at.blocks - at.scheduler.memory.free) / at.blocks


def _mean_token_interval(at: Replica) -> float:
    gaps = at.decode_gaps[-_LATEST:]
    return seconds(sum(gaps)) / len(gaps) if gaps else 0.0


def _prefill_delay(at: Replica) -> float:
    return seconds(sum(at.prefill_ticks(request.spec) for request in at.requests if request.generated == 0))


def _fresh(at: Replica) -> int:
    return sum(request.phase == ANSWERING and at.scheduler.quanta(request) == 0 for request in at.requests)


def _head_blocks(at: Replica) -> int:
    head = at.scheduler.head
    return at.scheduler.blocks_of(head) if head else 0


def _incoming_blocks(at: Replica) -> int:
    """Blocks for the KV that is on its way and, without a reserve, for one more token of each request."""
    incoming, memory = at.scheduler.state.incoming, at.scheduler.memory
    more = int(incoming.reserve is None)
    return sum(memory.blocks_for(one.computed + more) for one in incoming.on_the_way)


def fits_into(at: Replica, request: Request, free: float) -> bool:
    """Whether so many free blocks hold a request, beside those that it has there."""
    memory = at.scheduler.memory
    held = len(request.blocks) if request.running and request.where == at.index else 0
    lacking = memory.blocks_for(request.tokens) - held
    return lacking <= 0 or lacking <= free


def _fits(at: Replica, request: Request) -> bool:
    return fits_into(at, request, at.scheduler.memory.free)


def _context_blocks(at: Replica) -> int:
    blocks_for = at.scheduler.memory.blocks_for
    return sum(blocks_for(request.tokens) for request in at.requests if request.running)


def _prefix_tokens(at: Replica, request: Request) -> int:
    return len(at.scheduler.memory.hits(request, request.spec.prompt_tokens)) * at.block_tokens


_ALONE: dict[str, Callable[[Replica], float]] = {
    "kv_tokens": lambda at: _kv("gpu", "cpu", "host")(at) + _sent(at) + _reserved(at),
    "gpu_kv_tokens": lambda at: _kv("gpu")(at) + _sent(at) + _reserved(at),
    "cpu_kv_tokens": _kv("cpu", "host"),
    "free_blocks": lambda at: at.scheduler.memory.free,
    "total_blocks": lambda at: at.blocks,
    "block_tokens": lambda at: at.block_tokens,
    "free_cpu_blocks": lambda at: at.scheduler.memory.cpu_pool.free,
    "kv_usage": _kv_usage,
    "running": _count(lambda request: request.running),
    "waiting": _count(lambda request: not (request.running or request.memory == "cpu")),
    "swapped": _count(lambda request: request.place == "queued" and request.memory == "cpu"),
    "requests": lambda at: len(at.requests),
    "arrived": lambda at: len(at.arrived),
    "arrived_tokens": lambda at: sum(spec.prompt_tokens for spec in at.arrived),
    "finished": lambda at: at.usage.finished,
    "finished_tokens": lambda at: sum(spec.output_tokens for spec in at.finished),
    "prefilling_requests": _count(lambda request: request.generated == 0),
    "decoding_requests": _count(lambda request: request.generated > 0),
    "reasoning_requests": _count(lambda request: request.phase != ANSWERING),
    "answering_requests": _count(lambda request: request.phase == ANSWERING),
    "fresh_answering_requests": _fresh,
    "running_tokens": lambda at: sum(request.tokens for request in at.requests if request.running),
    "context_blocks": _context_blocks,
    "outstanding_tokens": lambda at: sum(request.tokens for request in at.requests),
    "mean_token_interval_s": _mean_token_interval,
    "prefill_delay_s": _prefill_delay,
    "waiting_blocks": lambda at: at.scheduler.waiting_blocks,
    "head_blocks": _head_blocks,
    "incoming_requests": lambda at: len(at.scheduler.state.incoming.on_the_way),
    "incoming_tokens": lambda at: sum(one.computed for one in at.scheduler.state.incoming.on_the_way),
    "incoming_blocks": _incoming_blocks,
    "role": lambda at: at.role,
    "index": lambda at: at.index,
    # Routers keep these; a condition of a scheduler, which is evaluated on an instance, reads 0.
    **dict.fromkeys(("routed_requests", "routed_tokens", "routed_since_report", "routed_ever"), lambda at: 0),
}

_OF_A_REQUEST: dict[str, Callable[[Replica, Request], float]] = {
    "fits": _fits,
    "prefill_s": lambda at, request: seconds(at.prefill_ticks(request.spec)),
    "prefix_tokens": _prefix_tokens,
}
