"""Logs of Llumnix's dispatch (AlibabaPAI/llumnix 24220fb, llumnix/global_scheduler/dispatch_policy.py).

Infos of instances are polled. The filter of busy instances is left out: with one
metric for both, it never changes the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from paceline.conformance.routers import timed
from paceline.conformance.routers.bounds import Blocks, Count, Index, Instances, Request, Step
from paceline.conformance.routers.decided import Decided
from paceline.conformance.routers.replay import NO_SHORTAGE, TICKS_PER_S, columns, instance, run
from paceline.policy import Policy, Reports, Rule, inst, minimum, pick, where

__all__ = ["Log", "recorded", "replayed", "rule"]


class _Config(msgspec.Struct):
    step_ns: Step
    poll_ns: Step
    policy: Literal["load", "queue", "balanced", "rr"]
    metric: Literal["remaining_steps", "kv_blocks_ratio", "miss_waiting_tokens", "adaptive_decode"]
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


def rule(config: _Config) -> Rule:
    """Return the rule of a dispatch policy and metric."""
    if config.policy == "rr":
        return "round_robin"
    if config.policy == "queue":
        return pick(min=inst.waiting)
    if config.policy == "balanced":
        return pick(min=inst.routed_ever)
    free = config.kv_blocks - inst.context_blocks
    decodes = inst.answering_requests
    if config.metric == "remaining_steps":
        waiting = minimum(inst.waiting, 1) if config.enable_defrag else inst.waiting
        left = free - (inst.head_blocks if config.enable_defrag else inst.waiting_blocks)
        steps = where(inst.running + waiting == 0, float(NO_SHORTAGE), left / (inst.running + waiting))
        return pick(max=steps, ties="last")
    if config.metric == "kv_blocks_ratio":
        return pick(min=(inst.context_blocks + inst.waiting_blocks) / config.kv_blocks)
    if config.metric == "miss_waiting_tokens":
        return pick(min=inst.outstanding_tokens - inst.running_tokens)
    return pick(min=where(decodes == 0, 128, where(decodes >= 128, decodes, 128 - decodes)))


def replayed(log: Log, *, leap: bool, follow: bool) -> Decided:
    """Replay a log: the instances are sorted by their names, as text, where the policy does so."""
    del follow  # nothing is random
    config = log.config
    policy = Policy(
        name=log.router, on_arrival=rule(config), reports=Reports(every=config.poll_ns / TICKS_PER_S)
    )
    engine = instance(
        step_ns=config.step_ns, max_num_seqs=config.max_num_seqs, admission_blocks=config.kv_blocks
    )
    outcome = run([engine] * config.instances, columns(log.requests), policy, leap=leap)
    names = _sorted(config)
    return {**timed.decided(outcome), "instance": [names[index] for index in outcome.instance.tolist()]}


def _sorted(config: _Config) -> Sequence[int]:
    """Return the instances in the order in which the policy scans them."""
    indices = range(config.instances)
    return sorted(indices, key=str) if config.policy in ("queue", "rr") else indices
