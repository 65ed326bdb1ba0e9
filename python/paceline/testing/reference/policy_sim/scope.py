"""What a policy sees: the fields of a request and of an instance, worked out anew each time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paceline.testing.reference.policy_sim.pacing import slack
from paceline.testing.reference.policy_sim.request import ANSWERING, Request

if TYPE_CHECKING:
    from paceline.testing.reference.policy_sim.replica import Replica

TICKS_PER_SECOND = 10**12
FOREVER = 1e18  # seconds of slack where nothing paces


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast readers read, and how soon they expect to start; in ticks."""

    interval: int
    first: int
    ttft: int | None = None


@dataclass(frozen=True, slots=True)
class View:
    """A moment, and the request and the instances that an expression may speak of."""

    now: int
    replicas: list[Replica]
    pace: Pace | None = None
    request: Request | None = None
    inst: Replica | None = None
    here: Replica | None = None
    there: Replica | None = None

    def each(self, within: list[int] | None) -> Iterator[View]:
        """Go over the instances of some roles, each in turn as the candidate."""
        for replica in self.replicas:
            if within is None or replica.role in within:
                yield replace(self, inst=replica)

    def field(self, name: str, position: int | None) -> float:
        """Return a field by its name."""
        subject, _, rest = name.partition(".")
        if subject in ("req", "oracle"):
            assert self.request is not None, name
            return request_field(rest, self.request, self)
        replica = {"inst": self.inst, "here": self.here, "there": self.there}[subject]
        assert replica is not None, name
        return instance_field(rest, replica, self, position)


def seconds(ticks: int) -> float:
    """Return a span of ticks in seconds."""
    return ticks / TICKS_PER_SECOND


def slack_ticks(request: Request, pace: Pace, now: int) -> int | None:
    """How long an answering request's reader has something to read; None where it isn't answering."""
    if request.phase != ANSWERING:
        return None
    if request.answer_times:
        return slack(request.answer_times, pace.interval, now)
    assert request.reasoning_end is not None
    return request.reasoning_end + pace.first - now


def on_pace(replica: Replica, pace: Pace | None, now: int) -> bool:
    """Whether no answering request of an instance keeps its reader waiting."""
    if pace is None:
        return True
    left = [slack_ticks(request, pace, now) for request in replica.requests]
    return all(ticks > 0 for ticks in left if ticks is not None)


def request_field(name: str, request: Request, view: View) -> float:
    """Return what a policy sees of a request, times in seconds."""
    spec, now = request.spec, view.now
    waits = request.place == "queued"
    at = view.inst or view.here
    if name == "slack_s":
        ticks = slack_ticks(request, view.pace, now) if view.pace else None
        return FOREVER if ticks is None else seconds(ticks)
    if name == "prefill_s":
        assert at is not None
        return seconds(at.prefill_ticks(spec))
    if name == "blocks":
        assert at is not None
        return at.scheduler.blocks_of(request)
    if name == "idle_steps":
        assert at is not None
        return at.formed - request.idle_from if waits else 0
    if name == "quanta":
        assert at is not None
        return at.scheduler.quanta(request)
    return {
        "arrival_s": seconds(spec.arrival),
        "age_s": seconds(now - spec.arrival),
        "waiting_s": seconds(now - request.queued_at) if waits else 0.0,
        "attained_s": seconds(request.attained + (now - request.admitted_at if request.running else 0)),
        "joined_s": seconds(request.joined),
        "prompt_tokens": spec.prompt_tokens,
        "generated_tokens": request.generated,
        "context_tokens": request.tokens,
        "kv_tokens": request.computed,
        "phase": request.phase,
        "priority": spec.priority,
        "score": spec.score,
        "tenant": spec.tenant,
        "preemptions": request.preemptions,
        "running": request.running,
        "output_tokens": spec.output_tokens,
        "remaining_tokens": spec.output_tokens - request.generated,
        "reasoning_tokens": spec.reasoning_tokens,
    }[name]


def instance_field(name: str, replica: Replica, view: View, position: int | None) -> float:
    """Return what a policy sees of an instance, times in seconds."""
    requests, scheduler = replica.requests, replica.scheduler
    memory = scheduler.memory
    free, total = memory.free, replica.blocks
    if name == "answering_on_pace":
        return on_pace(replica, view.pace, view.now)
    if name == "class_requests":
        return sum(request.position == position for request in requests)
    if name == "mean_token_interval_s":
        gaps = replica.decode_gaps[-64:]
        return seconds(sum(gaps)) / len(gaps) if gaps else 0.0
    if name == "prefill_delay_s":
        return seconds(sum(replica.prefill_ticks(request.spec) for request in requests if request.generated == 0))
    if name in ("fits", "prefill_s", "prefix_tokens"):
        return _of_request(name, replica, view)
    if name in ("waiting_blocks", "head_blocks"):
        head = [scheduler.head] if scheduler.head else []
        queued = scheduler.queue if name == "waiting_blocks" else head
        return sum(scheduler.blocks_of(request) for request in queued)
    return {
        "kv_tokens": sum(request.computed for request in requests),
        "gpu_kv_tokens": sum(request.computed for request in requests if request.memory == "gpu"),
        "cpu_kv_tokens": sum(request.computed for request in requests if request.memory in ("cpu", "host")),
        "free_blocks": free,
        "total_blocks": total,
        "block_tokens": replica.block_tokens,
        "free_cpu_blocks": memory.cpu_pool.free,
        "kv_usage": (total - free) / total,
        "running": sum(request.running for request in requests),
        "waiting": sum(request.place == "queued" and request.memory != "cpu" for request in requests),
        "swapped": sum(request.place == "queued" and request.memory == "cpu" for request in requests),
        "requests": len(requests),
        "reasoning_requests": sum(request.phase != ANSWERING for request in requests),
        "answering_requests": sum(request.phase == ANSWERING for request in requests),
        "fresh_answering_requests": sum(
            request.phase == ANSWERING and scheduler.quanta(request) == 0 for request in requests
        ),
        "running_tokens": sum(request.tokens for request in requests if request.running),
        "outstanding_tokens": sum(request.tokens for request in requests),
        "role": replica.role,
        "index": replica.index,
    }[name]


def _of_request(name: str, replica: Replica, view: View) -> float:
    """Return what an instance would be to the request that an expression speaks of."""
    request = view.request
    assert request is not None, name
    if name == "prefill_s":
        return seconds(replica.prefill_ticks(request.spec))
    memory = replica.scheduler.memory
    if name == "prefix_tokens":
        return len(memory.hits(request, request.spec.prompt_tokens)) * replica.block_tokens
    held = len(request.blocks) if request.running and request.where == replica.index else 0
    return memory.blocks_for(request.tokens) - held <= memory.free
