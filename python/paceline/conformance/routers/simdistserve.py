"""Logs of simdistserve's dispatch (LLMServe/DistServe 82831f1, simdistserve/base/scheduler.py).

The rules of `distserve` are asked about what the log says that the dispatcher saw.
Its decode workers are not replayed: a step takes requests from the front of a queue
up to a number of context tokens, and puts them back at its end.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from paceline.conformance.routers.bounds import Index, Instances, Request
from paceline.conformance.routers.decided import Decided
from paceline.conformance.routers.seen import Rules, Sight
from paceline.errors import TraceError
from paceline.policies.distserve import distserve

__all__ = ["GRADE", "Log", "recorded", "replayed"]

GRADE: Final = "rule"

_Requests = list[Annotated[int, msgspec.Meta(ge=0, lt=2**31)]]


class _Cluster(msgspec.Struct):
    prefill_instances: Instances
    decode_instances: Instances


class _Seen(msgspec.Struct):
    queue: _Requests
    prefill_in_step: _Requests


class _Decision(msgspec.Struct):
    request: Index
    stage: Literal["prefill", "decode"]
    instance: Index
    seen: _Seen


class Log(msgspec.Struct):
    """What a file holds."""

    router: str
    cluster: _Cluster
    requests: list[Request]
    decisions: list[_Decision]


def recorded(log: Log) -> Decided:
    """Return the decisions in a log, both stages by request."""
    both = _by_request(log)
    return {
        "prefill instance": [prefill.instance for prefill, _ in both],
        "decode instance": [decode.instance for _, decode in both],
    }


def replayed(log: Log, *, leap: bool, follow: bool) -> Decided:
    """Ask the rules about each request."""
    del leap, follow  # each replay is of one request, and nothing is random
    cluster = log.cluster
    prefills, decodes = cluster.prefill_instances, cluster.decode_instances
    rules = Rules(distserve(prefill=prefills, decode=decodes), prefills + decodes)
    answers = []
    for request, (prefill, decode) in zip(log.requests, _by_request(log), strict=True):
        sight = Sight(
            prompt_tokens=request.prompt_tokens,
            output_tokens=request.output_tokens,
            order=range(prefills + decodes),
            fields={
                "waiting": [*prefill.seen.queue, *decode.seen.queue],
                "running": [*prefill.seen.prefill_in_step, *([0] * decodes)],
            },
        )
        answers.append(rules.ask(sight))
    return {
        "prefill instance": [answer.first for answer in answers],
        "decode instance": [answer.last - prefills for answer in answers],
    }


def _by_request(log: Log) -> list[tuple[_Decision, _Decision]]:
    """Return the decisions of each request.

    Raises
    ------
    TraceError
        If one is missing.
    """
    stages: dict[str, dict[int, _Decision]] = {"prefill": {}, "decode": {}}
    for decision in log.decisions:
        stages[decision.stage][decision.request] = decision
    for stage, found in stages.items():
        for row in range(len(log.requests)):
            if row not in found:
                raise TraceError(f"decisions must have one of stage {stage!r} for request {row}, had none")
    return [(stages["prefill"][row], stages["decode"][row]) for row in range(len(log.requests))]
