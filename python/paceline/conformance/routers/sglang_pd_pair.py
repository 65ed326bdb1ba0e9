"""Logs of SGLang's gateway for prefill and decode apart (sgl-model-gateway 0.3.2, src/policies).

Each pool has its own policy, tree, random numbers and loads. Both instances of a request
are chosen as it arrives, and it counts in the load of both until it finishes.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from paceline.conformance.routers import sglang
from paceline.conformance.routers.bounds import Index, Instances, Nanoseconds, Seed
from paceline.conformance.routers.decided import Decided
from paceline.conformance.routers.prefixes import PrefixRequest, prefix_columns
from paceline.conformance.routers.replay import columns, watch
from paceline.conformance.routers.sglang_cache_aware import spelled
from paceline.errors import TraceError
from paceline.policies.sglang_router import cache_aware
from paceline.policy import Policy, Pools, PromptTree, Rule, inst, pick, round_robin

__all__ = ["Log", "recorded", "replayed"]


class _Pool(msgspec.Struct):
    policy: Literal["cache_aware", "power_of_two", "round_robin"]
    cache_threshold: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    balance_abs_threshold: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0
    balance_rel_threshold: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 0.0


class _Config(msgspec.Struct, kw_only=True):
    prefill: _Pool
    decode: _Pool
    text_rule: Literal["token_char", "hex8"]
    rng_seed: Seed = 0


class _Choice(msgspec.Struct):
    scores: list[int]


class _Decision(msgspec.Struct):
    request: Index
    t_ns: Nanoseconds
    instance: Index
    scores: list[int]
    decode_instance: Index
    decode: _Choice


class Log(sglang.SglangLog, kw_only=True):
    """What a log holds."""

    config: _Config
    block_tokens: Annotated[int, msgspec.Meta(ge=1, le=2**16)]
    prefill_instances: Instances
    requests: list[PrefixRequest]  # type: ignore[assignment]  # with the ids of blocks
    decisions: list[_Decision]  # type: ignore[assignment]  # with both choices


def recorded(log: Log) -> Decided:
    """Return the loads that the policies saw, the decisions of both and the times in a log."""
    return {
        "loads": [decision.scores + decision.decode.scores for decision in log.decisions],
        "decode instance": [decision.decode_instance for decision in log.decisions],
        "decision (ns)": [decision.t_ns for decision in log.decisions],
        **sglang.recorded(log),
    }


def _rule(pool: _Pool, name: str) -> Rule:
    """Return the rule of a pool's policy."""
    if pool.policy == "round_robin":
        return round_robin(within=name)
    if pool.policy == "power_of_two":
        return pick(min=inst.routed_requests, among=2, within=name)
    return cache_aware(
        load=inst.routed_requests,
        cache_threshold=pool.cache_threshold,
        balance_abs_threshold=pool.balance_abs_threshold,
        balance_rel_threshold=pool.balance_rel_threshold,
        within=name,
    )


def replayed(log: Log, *, leap: bool, follow: bool) -> Decided:
    """Replay a log.

    Raises
    ------
    TraceError
        If no instance is left for a pool.
    """
    del follow  # random numbers are of the log's generator
    config, prefills = log.config, log.prefill_instances
    if prefills >= log.instances:
        raise TraceError(f"prefill_instances must be below instances, {log.instances}, was {prefills}")
    hexadecimal = config.text_rule == "hex8"
    trees = "cache_aware" in (config.prefill.policy, config.decode.policy)
    policy = Policy(
        name=log.router,
        on_arrival=_rule(config.prefill, "prefill"),
        decode_on_arrival=_rule(config.decode, "decode"),
        pools=Pools(prefill=prefills, decode=log.instances - prefills),
        tree=PromptTree(text="hex" if hexadecimal else "tokens") if trees else None,
        seed=config.rng_seed,
    )
    blocks = prefix_columns(log.requests, log.block_tokens, spelled if hexadecimal else int)
    given: dict[str, Any] = {**columns(log.requests), **blocks}
    outcome = watch(sglang.cluster(log), given, policy, inst.routed_requests, leap=leap)
    at = outcome.columns["last_instance"].astype(np.int64)
    return {
        "loads": outcome.watched.reshape(-1, log.instances).astype(int).tolist(),
        "decode instance": _decode(log, at.tolist()),
        "decision (ns)": [each.arrival_ns for each in log.requests],
        **sglang.decided(outcome),
    }


def _decode(log: Log, last: list[int]) -> list[int]:
    """Return the decode instance of each request; of one that its prefill finishes, as the log has it."""
    ends_early = [each.output_tokens == 1 for each in log.requests]
    theirs = [decision.decode_instance for decision in log.decisions]
    return [b if early else a for a, b, early in zip(last, theirs, ends_early, strict=True)]
