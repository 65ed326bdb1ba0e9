"""What the logs of SGLang's gateway have in common: requests, stamps, and a cluster without limits."""

from __future__ import annotations

from typing import Any

import msgspec

from paceline import _core
from paceline.conformance.routers.bounds import Block, Index, Instances, Nanoseconds, Request, Step
from paceline.conformance.routers.decided import Decided
from paceline.conformance.routers.replay import instance

__all__ = ["Decision", "SglangLog", "SglangRequest", "cluster", "decided", "recorded"]


class SglangRequest(Request):
    """A request, and the ids of the blocks of its prompt."""

    blocks: list[Block] = msgspec.field(default_factory=list)
    tail_block: Block | None = None


class Decision(msgspec.Struct):
    """A choice of the router."""

    request: Index
    t_ns: Nanoseconds
    instance: Index


class SglangLog(msgspec.Struct, kw_only=True):
    """What all these logs hold."""

    router: str
    instances: Instances
    step_ns: Step
    requests: list[SglangRequest]
    decisions: list[Decision]
    first_token_ns: list[Nanoseconds]
    finish_ns: list[Nanoseconds]


def cluster(log: SglangLog) -> list[dict[str, Any]]:
    """Return the instances of a log: equal, without limits of batch or memory."""
    return [instance(step_ns=log.step_ns)] * log.instances


def recorded(log: SglangLog) -> Decided:
    """Return the decisions and times in a log."""
    return {
        "instance": [decision.instance for decision in log.decisions],
        "first token (ns)": log.first_token_ns,
        "finish (ns)": log.finish_ns,
    }


def decided(outcome: _core.Outcome) -> Decided:
    """Return the decisions and times of a replay."""
    return {
        "instance": outcome.columns["instance"].tolist(),
        "first token (ns)": outcome.columns["first_token"].tolist(),
        "finish (ns)": outcome.columns["finish"].tolist(),
    }
