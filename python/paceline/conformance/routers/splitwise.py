"""Logs of splitwise-sim's routers without a mixed pool (Mutinifni/splitwise-sim 8f99e7d, scheduler.py).

The rules of `splitwise_router` are asked about what the log says that the router
saw. Its instance is not replayed: it forms batches of several iterations and
preempts tasks in place, which the engine's schedulers cannot say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec

from paceline.conformance.routers.bounds import Index, Request
from paceline.conformance.routers.decided import Decided
from paceline.conformance.routers.replay import columns, instance, run
from paceline.conformance.routers.seen import Answer, Rules, Sight, places
from paceline.errors import TraceError
from paceline.policies.splitwise import splitwise_router
from paceline.policy import Policy

__all__ = ["GRADE", "Cluster", "Instance", "Log", "Seen", "check_rows", "recorded", "replayed"]

GRADE: Final = "rule"

Bytes = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
_Tokens = Annotated[int, msgspec.Meta(gt=-(2**53), lt=2**53)]
# Where nothing raises it, it falls below zero.
_Memory = Annotated[int, msgspec.Meta(gt=-(2**62), lt=2**62)]
_Waiting = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class Instance(msgspec.Struct):
    """An instance of a log; its tag is its pool."""

    index: Index
    tag: Literal["prompt", "token"] | None


class Cluster(msgspec.Struct):
    """The instances of a log."""

    instances: Annotated[list[Instance], msgspec.Meta(min_length=1, max_length=4096)]
    kv_bytes_per_token: Annotated[int, msgspec.Meta(ge=1, lt=2**40)]
    weights_bytes: Bytes
    max_memory_bytes: Bytes


class Seen(msgspec.Struct):
    """What the router saw of each instance."""

    pending_requests: list[_Waiting]
    sched_pending_tokens: list[_Tokens]
    sched_memory: list[_Memory]
    pending_queue: list[_Waiting]


class _Decision(msgspec.Struct):
    request: Index
    prompt_instance: Index
    token_instance: Index
    seen: Seen


class Log(msgspec.Struct):
    """What a file holds."""

    router: str
    cluster: Cluster
    requests: list[Request]
    decisions: list[_Decision]


_RULES: Final[dict[str, Literal["round_robin", "jsq", "token_jsq"]]] = {
    "RoundRobinScheduler": "round_robin",
    "JSQScheduler": "jsq",
    "TokenJSQScheduler": "token_jsq",
    "KVRoundRobinScheduler": "round_robin",
    "KVJSQScheduler": "jsq",
    "OverlapKVJSQScheduler": "jsq",
    "KVTokenJSQScheduler": "token_jsq",
}


def recorded(log: Log) -> Decided:
    """Return the decisions in a log."""
    return {
        "prompt instance": [decision.prompt_instance for decision in log.decisions],
        "token instance": [decision.token_instance for decision in log.decisions],
    }


def replayed(log: Log, *, leap: bool, follow: bool) -> Decided:
    """Ask the rules about each request."""
    del follow  # nothing is random
    check_rows([decision.request for decision in log.decisions], len(log.requests))
    tags = [each.tag for each in log.cluster.instances]
    rule = _RULES.get(log.router.partition("/")[2])
    if rule is None:
        raise TraceError(
            f"router must be one of {', '.join(_RULES)} of splitwise-sim, was {log.router[:80]!r}"
        )
    split = None not in tags
    policy = splitwise_router(
        rule, prompt=tags.count("prompt") if split else None, token=tags.count("token") if split else None
    )
    answers = _in_turn(log, policy, leap=leap) if rule == "round_robin" else _asked(log, policy)
    return {
        "prompt instance": [answer.first for answer in answers],
        "token instance": [answer.last for answer in answers],
    }


def check_rows(rows: Sequence[int], requests: int) -> None:
    """Refuse decisions that are not one for each request, in their order.

    Raises
    ------
    TraceError
        Names the first that is not.
    """
    for at, row in enumerate(rows):
        if row != at:
            raise TraceError(f"decision {at} must be of request {at}, was of {row}")
    if len(rows) != requests:
        raise TraceError(f"decisions must be one for each of the {requests} requests, were {len(rows)}")


def _order(cluster: Cluster) -> list[int]:
    """Return the instances, those for prompts first."""
    return sorted(range(len(cluster.instances)), key=lambda index: cluster.instances[index].tag == "token")


def _in_turn(log: Log, policy: Policy, *, leap: bool) -> list[Answer]:
    """Replay the requests for rules that see nothing but their own turns."""
    instances = _order(log.cluster)
    outcome = run([instance(step_ns=1000)] * len(instances), columns(log.requests), policy, leap=leap)
    return [Answer(first=instances[first], last=instances[last]) for first, last in places(outcome)]


def _asked(log: Log, policy: Policy) -> list[Answer]:
    rules = Rules(policy, len(log.cluster.instances))
    return [rules.ask(_sight(log, decision)) for decision in log.decisions]


def _sight(log: Log, decision: _Decision) -> Sight:
    seen, request = decision.seen, log.requests[decision.request]
    # Lists of other lengths are refused when the rules are asked.
    tokens = zip(seen.sched_pending_tokens, seen.pending_requests, strict=False)
    return Sight(
        prompt_tokens=request.prompt_tokens,
        output_tokens=request.output_tokens,
        order=_order(log.cluster),
        fields={
            "requests": seen.pending_requests,
            "incoming_requests": [0] * len(seen.pending_requests),
            # The source has one number for the tokens of prompts and a token for each request.
            "active_prefill_tokens": [pending - requests for pending, requests in tokens],
        },
    )
