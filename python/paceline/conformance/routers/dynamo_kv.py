"""Logs of NVIDIA Dynamo's KV router (ai-dynamo/dynamo 2093662, lib/kv-router)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec

from paceline.conformance.routers.bounds import Index, Instances, Nanoseconds, Seed, Step
from paceline.conformance.routers.decided import Decided
from paceline.conformance.routers.prefixes import PrefixRequest, prefix_columns
from paceline.conformance.routers.replay import TICKS_PER_S, columns, instance, watch
from paceline.policies import DynamoTracking
from paceline.policies.dynamo import dynamo, dynamo_cost
from paceline.policy import Policy, pick

__all__ = ["Log", "recorded", "replayed"]

_Weight = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
_BlockTokens = Annotated[int, msgspec.Meta(ge=1, le=2**16)]


class _Config(msgspec.Struct, kw_only=True):
    overlap_score_credit: _Weight
    overlap_score_credit_decay: _Weight
    prefill_load_scale: _Weight
    decode_active_request_weight: _Weight
    router_temperature: _Weight
    router_track_active_blocks: bool
    router_track_output_blocks: bool
    router_track_prefill_tokens: bool
    router_assume_kv_reuse: bool
    use_kv_events: bool
    kv_events: Literal["none", "prompt", "prompt_and_output"]
    pass_expected_output_tokens: bool
    worker_type: Literal["aggregated", "prefill", "decode"]
    tie_seed: Seed


class _Decision(msgspec.Struct):
    request: Index
    t_ns: Nanoseconds
    instance: Index
    scores: list[float]


class Log(msgspec.Struct, kw_only=True):
    """What a log holds."""

    router: str
    config: _Config
    instances: Instances
    step_ns: Step
    block_tokens: _BlockTokens
    requests: list[PrefixRequest]
    decisions: list[_Decision]
    first_token_ns: list[Nanoseconds]
    finish_ns: list[Nanoseconds]


def recorded(log: Log) -> Decided:
    """Return the decisions, costs and times in a log."""
    return {
        "costs": [decision.scores for decision in log.decisions],
        "instance": [decision.instance for decision in log.decisions],
        "decision (ns)": [decision.t_ns for decision in log.decisions],
        "first token (ns)": log.first_token_ns,
        "finish (ns)": log.finish_ns,
    }


def _policy(log: Log) -> Policy:
    config = log.config
    return dynamo(
        block_tokens=log.block_tokens,
        overlap_score_credit=config.overlap_score_credit,
        overlap_score_credit_decay=config.overlap_score_credit_decay,
        prefill_load_scale=config.prefill_load_scale,
        decode_active_request_weight=config.decode_active_request_weight,
        temperature=config.router_temperature,
        tracking=DynamoTracking(
            use_kv_events=config.use_kv_events,
            output_events=config.kv_events == "prompt_and_output",
            active_blocks=config.router_track_active_blocks,
            output_blocks=config.router_track_output_blocks,
            expected_outputs=config.pass_expected_output_tokens,
            assume_kv_reuse=config.router_assume_kv_reuse,
            prefill_tokens=config.router_track_prefill_tokens,
        ),
        decode_pool=config.worker_type == "decode",
        seed=config.tie_seed,
    )


def replayed(log: Log, *, leap: bool, follow: bool) -> Decided:
    """Replay a log; with ``follow``, equal costs go to the instance in the log, where it has one of them."""
    config, policy = log.config, _policy(log)
    cost = dynamo_cost(
        block_tokens=log.block_tokens,
        overlap_score_credit=config.overlap_score_credit,
        overlap_score_credit_decay=config.overlap_score_credit_decay,
        prefill_load_scale=config.prefill_load_scale,
        decode_active_request_weight=config.decode_active_request_weight,
        track_prefill_tokens=config.router_track_prefill_tokens,
        decode_pool=config.worker_type == "decode",
    )
    given: dict[str, Any] = {**columns(log.requests), **prefix_columns(log.requests, log.block_tokens)}
    followed = None
    if follow and config.router_temperature == 0:
        followed = [decision.instance for decision in log.decisions]
        policy = replace(policy, on_arrival=pick(min=cost))
    instances = [instance(step_ns=log.step_ns, block_tokens=log.block_tokens)] * log.instances
    outcome = watch(instances, given, policy, cost, leap=leap, followed=followed)
    return {
        "costs": outcome.watched.reshape(-1, log.instances).tolist(),
        "instance": outcome.columns["instance"].tolist(),
        "decision (ns)": [round(each.arrival_ns * TICKS_PER_S / 1e9) for each in log.requests],
        "first token (ns)": outcome.columns["first_token"].tolist(),
        "finish (ns)": outcome.columns["finish"].tolist(),
    }
