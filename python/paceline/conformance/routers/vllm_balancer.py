"""What logs of vLLM's data-parallel balancers share (v1/engine/core_client.py, coordinator.py).

Engines tell their counts to a coordinator, which publishes them: at most every 100 ms, and
every 5 s if nothing was told. Engines with a mixture of experts step together; every so
many steps they agree whether to go on.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from paceline.conformance.routers import timed
from paceline.conformance.routers.bounds import Blocks, Count, Index, Instances, Request, Step
from paceline.conformance.routers.decided import Decided
from paceline.conformance.routers.replay import TICKS_PER_S, columns, instance, run
from paceline.errors import TraceError
from paceline.policy import Policy, Reports, Rule

__all__ = ["BalancerLog", "Config", "recorded", "replayed"]


class Config(msgspec.Struct):
    """The settings that act."""

    engines: Instances
    step_ns: Step
    max_num_seqs: Count
    stats: Literal["periodic", "coordinator", "lockstep"]
    clients: Instances
    stats_interval_ns: Step | None = None
    sync_interval: Step | None = None
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


def replayed(log: BalancerLog, rule: Rule, *, tells_before: bool, leap: bool) -> Decided:
    """Replay a log under the rule of its version; a client is a router.

    With ``tells_before``, an engine tells its counts before a step too, and engines
    that step together agree after their first step as well.
    """
    config = log.config
    policy = Policy(
        name=log.router, on_arrival=rule, reports=_reports(config, tells_before), routers=config.clients
    )
    engine: dict[str, Any] = instance(step_ns=config.step_ns, max_num_seqs=config.max_num_seqs)
    lockstep = None
    if config.stats == "lockstep":
        sync = {"every": _given("sync_interval", config.sync_interval), "first": tells_before}
        members = list(range(config.engines))
        lockstep = [{"members": members, "shared": {"at": [1], "ticks": [0]}, "padded": 0, "sync": sync}]
    outcome = run([engine] * config.engines, columns(log.requests), policy, leap=leap, lockstep=lockstep)
    return timed.decided(outcome)


def _reports(config: Config, tells_before: bool) -> Reports:
    """Return how the counts of engines reach the clients."""
    if config.stats == "periodic":
        return Reports(every=_given("stats_interval_ns", config.stats_interval_ns) / TICKS_PER_S)
    return Reports(
        every=5.0,
        on_change="around" if tells_before else "after",
        gap=0.1,
        unit=0.001,
        whole_steps=0.05 if config.stats == "lockstep" else None,
    )


def _given(name: str, value: int | None) -> int:
    if value is None:
        raise TraceError(f"config.{name} must be a number for such reports, was left out")
    return value
