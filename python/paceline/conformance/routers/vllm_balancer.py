"""What logs of vLLM's data-parallel balancers share (v1/engine/core_client.py, DPLBAsyncMPClient)."""

from __future__ import annotations

from typing import Any

import msgspec

from paceline.conformance.routers import timed
from paceline.conformance.routers.bounds import Blocks, Count, Index, Instances, Request, Step
from paceline.conformance.routers.decided import Decided
from paceline.conformance.routers.replay import TICKS_PER_S, columns, instance, run
from paceline.policy import Policy, Reports, Rule

__all__ = ["BalancerLog", "Config", "recorded", "replayed"]


class Config(msgspec.Struct):
    """The settings that act."""

    engines: Instances
    step_ns: Step
    max_num_seqs: Count
    stats_interval_ns: Step
    clients: Instances
    kv_blocks: Blocks | None = None


class Decision(msgspec.Struct):
    """A choice of a client."""

    engine: Index


class BalancerLog(msgspec.Struct):
    """What a file holds."""

    router: str
    config: Config
    requests: list[Request]
    decisions: list[Decision]
    results: list[timed.Result]


def recorded(log: BalancerLog) -> Decided:
    """Return the decisions and times in a log."""
    return timed.recorded([decision.engine for decision in log.decisions], log.results)


def replayed(log: BalancerLog, rule: Rule, *, leap: bool) -> Decided:
    """Replay a log under the rule of its version: a client is a router, and engines report periodically."""
    config = log.config
    policy = Policy(
        name=log.router,
        on_arrival=rule,
        reports=Reports(every=config.stats_interval_ns / TICKS_PER_S),
        routers=config.clients,
    )
    engine: dict[str, Any] = instance(step_ns=config.step_ns, max_num_seqs=config.max_num_seqs)
    return timed.decided(run([engine] * config.engines, columns(log.requests), policy, leap=leap))
