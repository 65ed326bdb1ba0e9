"""What a policy sees: the fields of a request and of an instance, worked out anew each time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paceline.testing.reference.blocks import blocks_for
from paceline.testing.reference.wire.pacing import slack
from paceline.testing.reference.wire.request import ANSWERING, Job

if TYPE_CHECKING:
    from paceline.testing.reference.wire.replica import Replica

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
    job: Job | None = None
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
            assert self.job is not None, name
            return request_field(rest, self.job, self)
        replica = {"inst": self.inst, "here": self.here, "there": self.there}[subject]
        assert replica is not None, name
        return instance_field(rest, replica, self, position)


def seconds(ticks: int) -> float:
    """Return a span of ticks in seconds."""
    return ticks / TICKS_PER_SECOND


def slack_ticks(job: Job, pace: Pace, now: int) -> int | None:
    """How long an answering request's reader has something to read; None where it isn't answering."""
    if job.phase != ANSWERING:
        return None
    if job.answer_times:
        return slack(job.answer_times, pace.interval, now)
    assert job.reasoning_end is not None
    return job.reasoning_end + pace.first - now


def on_pace(replica: Replica, pace: Pace | None, now: int) -> bool:
    """Whether no answering request of an instance keeps its reader waiting."""
    if pace is None:
        return True
    left = [slack_ticks(job, pace, now) for job in replica.jobs]
    return all(ticks > 0 for ticks in left if ticks is not None)


def request_field(name: str, job: Job, view: View) -> float:
    """Return what a policy sees of a request, times in seconds."""
    request, now = job.request, view.now
    waits = job.place == "queued"
    at = view.inst or view.here
    if name == "slack_s":
        ticks = slack_ticks(job, view.pace, now) if view.pace else None
        return FOREVER if ticks is None else seconds(ticks)
    if name == "prefill_s":
        assert at is not None
        return seconds(at.prefill_ticks(request))
    if name == "blocks":
        assert at is not None
        return at.scheduler.blocks_of(job)
    if name == "idle_steps":
        assert at is not None
        return at.formed - job.idle_from if waits else 0
    if name == "quanta":
        assert at is not None
        return at.scheduler.ranking.quanta(job)
    return {
        "arrival_s": seconds(request.arrival),
        "age_s": seconds(now - request.arrival),
        "waiting_s": seconds(now - job.queued_at) if waits else 0.0,
        "attained_s": seconds(job.attained + (now - job.admitted_at if job.running else 0)),
        "joined_s": seconds(job.joined),
        "prompt_tokens": request.prompt_tokens,
        "generated_tokens": job.generated,
        "context_tokens": job.tokens,
        "kv_tokens": job.computed,
        "phase": job.phase,
        "priority": request.priority,
        "score": request.score,
        "tenant": request.tenant,
        "preemptions": job.preemptions,
        "running": job.running,
        "output_tokens": request.output_tokens,
        "remaining_tokens": request.output_tokens - job.generated,
        "reasoning_tokens": request.reasoning_tokens,
    }[name]


def instance_field(name: str, replica: Replica, view: View, position: int | None) -> float:
    """Return what a policy sees of an instance, times in seconds."""
    jobs, scheduler = replica.jobs, replica.scheduler
    free, total = scheduler.pool.free, replica.blocks
    if name == "answering_on_pace":
        return on_pace(replica, view.pace, view.now)
    if name == "class_requests":
        return sum(job.position == position for job in jobs)
    if name == "mean_token_interval_s":
        gaps = replica.decode_gaps[-64:]
        return seconds(sum(gaps)) / len(gaps) if gaps else 0.0
    if name == "prefill_delay_s":
        return seconds(sum(replica.prefill_ticks(job.request) for job in jobs if job.generated == 0))
    if name in ("fits", "prefill_s", "prefix_tokens"):
        return _of_request(name, replica, view)
    if name in ("waiting_blocks", "head_blocks"):
        needs = [scheduler.blocks_of(job) for job in scheduler.ranked_queue]
        return sum(needs) if name == "waiting_blocks" else sum(needs[:1])
    return {
        "kv_tokens": sum(job.computed for job in jobs),
        "gpu_kv_tokens": sum(job.computed for job in jobs if job.memory == "gpu"),
        "cpu_kv_tokens": sum(job.computed for job in jobs if job.memory in ("cpu", "host")),
        "free_blocks": free,
        "total_blocks": total,
        "block_tokens": replica.block_tokens,
        "free_cpu_blocks": scheduler.cpu_pool.free,
        "kv_usage": (total - free) / total,
        "running": sum(job.running for job in jobs),
        "waiting": sum(job.place == "queued" and job.memory != "cpu" for job in jobs),
        "swapped": sum(job.place == "queued" and job.memory == "cpu" for job in jobs),
        "requests": len(jobs),
        "reasoning_requests": sum(job.phase != ANSWERING for job in jobs),
        "answering_requests": sum(job.phase == ANSWERING for job in jobs),
        "fresh_answering_requests": sum(
            job.phase == ANSWERING and scheduler.ranking.quanta(job) == 0 for job in jobs
        ),
        "running_tokens": sum(job.tokens for job in jobs if job.running),
        "outstanding_tokens": sum(job.tokens for job in jobs),
        "role": replica.role,
        "index": replica.index,
    }[name]


def _of_request(name: str, replica: Replica, view: View) -> float:
    """Return what an instance would be to the request that an expression speaks of."""
    job = view.job
    assert job is not None, name
    if name == "prefill_s":
        return seconds(replica.prefill_ticks(job.request))
    if name == "prefix_tokens":
        return 0.0
    held = len(job.blocks) if job.running and job.where == replica.index else 0
    return blocks_for(job.tokens, replica.block_tokens) - held <= replica.scheduler.pool.free
