"""The fields of a request that expressions read."""

from __future__ import annotations

from collections.abc import Callable

from paceline.testing.reference.policy_sim.pacing import Pace, slack
from paceline.testing.reference.policy_sim.replica import Replica
from paceline.testing.reference.policy_sim.request import ANSWERING, Request

TICKS_PER_SECOND = 10**12
FOREVER = 1e18  # seconds of slack where nothing paces


def seconds(ticks: int) -> float:
    """Return a span of ticks in seconds."""
    return ticks / TICKS_PER_SECOND


def slack_ticks(request: Request, pace: Pace, now: int) -> int | None:
    """Return for how long the reader of an answering request has tokens left; None in other phases."""
    if request.phase != ANSWERING:
        return None
    if request.answer_times:
        return slack(request.answer_times, pace.interval, now)
    assert request.reasoning_end is not None
    return request.reasoning_end + pace.first - now


def request_field(
    name: str, request: Request, now: int, pace: Pace | None, replicas: list[Replica], at: Replica | None
) -> float:
    """Return a field of a request, times in seconds.

    ``at`` is the instance that a predicted prefill is of: the candidate, or the present instance.
    """
    if name in _ALONE:
        return _ALONE[name](request)
    if name in _TIMED:
        return _TIMED[name](request, now)
    if name == "slack_s":
        ticks = slack_ticks(request, pace, now) if pace else None
        return FOREVER if ticks is None else seconds(ticks)
    if name == "prefill_s":
        assert at is not None, name
        return seconds(at.prefill_ticks(request.spec))
    if request.where is None:
        return 0
    return _WHERE_IT_IS[name](request, replicas[request.where])


def _stopped(request: Request) -> float:
    """Return when a request last stopped running, or came to its instance; 0 if it never ran."""
    if request.running and not request.left_out:
        return FOREVER
    return seconds(request.queued_at) if request.generated or request.attained else 0.0


def _idle_steps(request: Request, at: Replica) -> int:
    """Return the steps that ended since a request is idle, of those that were decided since."""
    return max(at.formed - (at.step is not None) - request.idle_from, 0)


_ALONE: dict[str, Callable[[Request], float]] = {
    "arrival_s": lambda one: seconds(one.spec.arrival),
    "joined_s": lambda one: seconds(one.joined),
    "prompt_tokens": lambda one: one.spec.prompt_tokens,
    "generated_tokens": lambda one: one.generated,
    "context_tokens": lambda one: one.tokens,
    "kv_tokens": lambda one: one.computed,
    "phase": lambda one: one.phase,
    "priority": lambda one: one.spec.priority,
    "score": lambda one: one.spec.score,
    "tenant": lambda one: one.spec.tenant,
    "preemptions": lambda one: one.preemptions,
    "cached_tokens": lambda one: one.cached,
    "running": lambda one: one.running and not one.left_out,
    "level": lambda one: one.level,
    "stopped_s": lambda one: _stopped(one),
    "output_tokens": lambda one: one.spec.output_tokens,
    "remaining_tokens": lambda one: one.spec.output_tokens - one.generated,
    "reasoning_tokens": lambda one: one.spec.reasoning_tokens,
}

_TIMED: dict[str, Callable[[Request, int], float]] = {
    "age_s": lambda one, now: seconds(now - one.spec.arrival),
    "waiting_s": lambda one, now: seconds(now - one.queued_at) if one.idle else 0.0,
    "attained_s": lambda one, now: seconds(
        one.attained + (now - one.admitted_at if one.running and not one.left_out else 0)
    ),
}

_WHERE_IT_IS: dict[str, Callable[[Request, Replica], float]] = {
    "blocks": lambda one, at: at.scheduler.blocks_of(one),
    "idle_steps": lambda one, at: _idle_steps(one, at) if one.idle else 0,
    "quanta": lambda one, at: at.scheduler.quanta(one),
}
