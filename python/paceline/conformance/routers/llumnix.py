"""Logs of Llumnix's dispatch (AlibabaPAI/llumnix 24220fb, llumnix/global_scheduler/dispatch_policy.py).

Infos of instances are polled. The filter of busy instances is left out: with one
metric for both, it never changes the choice.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from paceline.conformance.routers import timed
from paceline.conformance.routers.bounds import Blocks, Count, Index, Instances, Request, Step
from paceline.conformance.routers.decided import Decided
from paceline.conformance.routers.replay import TICKS_PER_S, columns, instance, run
from paceline.policies.llumnix_dispatch import Dispatch, LoadMetric, llumnix_dispatch
from paceline.policy import Policy, Reports, inst

__all__ = ["Log", "recorded", "replayed"]


class _Config(msgspec.Struct):
    step_ns: Step
    poll_ns: Step
    policy: Dispatch
    metric: LoadMetric
    enable_defrag: bool
    instances: Instances
    max_num_seqs: Count
    kv_blocks: Blocks


class _Decision(msgspec.Struct):
    instance: Index


class Log(msgspec.Struct):
    """What a file holds."""

    router: str
    config: _Config
    requests: list[Request]
    decisions: list[_Decision]
    results: list[timed.Result]


def recorded(log: Log) -> Decided:
    """Return the decisions and times in a log."""
    return timed.recorded([decision.instance for decision in log.decisions], log.results)


def replayed(log: Log, *, leap: bool, follow: bool) -> Decided:
    """Replay a log: the instances are sorted by their names, as text, where the policy does so."""
    del follow  # nothing is random
    config = log.config
    rule = llumnix_dispatch(
        config.policy,
        metric=config.metric,
        defrag=config.enable_defrag,
        free=config.kv_blocks - inst.context_blocks,
        total=config.kv_blocks,
    )
    policy = Policy(name=log.router, on_arrival=rule, reports=Reports(every=config.poll_ns / TICKS_PER_S))
    engine = instance(
        step_ns=config.step_ns, max_num_seqs=config.max_num_seqs, admission_blocks=config.kv_blocks
    )
    outcome = run([engine] * config.instances, columns(log.requests), policy, leap=leap)
    names = _sorted(config)
    return {
        **timed.decided(outcome),
        "instance": [names[index] for index in outcome.columns["instance"].tolist()],
    }


def _sorted(config: _Config) -> Sequence[int]:
    """Return the instances in the order in which the policy scans them."""
    indices = range(config.instances)
    return sorted(indices, key=str) if config.policy in ("queue", "rr") else indices
