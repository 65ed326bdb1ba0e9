"""Logs of SGLang's gateway, cache-aware (sgl-model-gateway 0.3.2, src/policies/cache_aware.rs)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from paceline.conformance.routers import sglang
from paceline.conformance.routers.bounds import Index, Nanoseconds
from paceline.conformance.routers.decided import Decided
from paceline.conformance.routers.prefixes import PrefixRequest, prefix_columns
from paceline.conformance.routers.replay import columns, watch
from paceline.policies.sglang_router import sglang_router
from paceline.policy import inst

__all__ = ["Log", "recorded", "replayed"]

_SPREAD = 2_654_435_761
"""What "hex8" multiplies an id by, modulo 2^32; it is odd, so no two ids become one."""


class _Config(msgspec.Struct, kw_only=True):
    policy: Literal["cache_aware"]
    cache_threshold: Annotated[float, msgspec.Meta(ge=0, le=1)]
    balance_abs_threshold: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    balance_rel_threshold: Annotated[float, msgspec.Meta(ge=0, le=1e6)]
    text_rule: Literal["token_char", "hex8"]


class _Decision(msgspec.Struct):
    request: Index
    t_ns: Nanoseconds
    instance: Index
    scores: list[int]


class Log(sglang.SglangLog, kw_only=True):
    """What a log holds."""

    config: _Config
    block_tokens: Annotated[int, msgspec.Meta(ge=1, le=2**16)]
    requests: list[PrefixRequest]  # type: ignore[assignment]  # with the ids of blocks
    decisions: list[_Decision]  # type: ignore[assignment]  # with the loads


def recorded(log: Log) -> Decided:
    """Return the loads that the policy saw, the decisions and the times in a log."""
    return {"loads": [decision.scores for decision in log.decisions], **sglang.recorded(log)}


def _spelled(block: int) -> int:
    return block * _SPREAD % 2**32


def replayed(log: Log, *, leap: bool, follow: bool) -> Decided:
    """Replay a log."""
    del follow  # nothing is random
    config = log.config
    hexadecimal = config.text_rule == "hex8"
    policy = sglang_router(
        cache_threshold=config.cache_threshold,
        balance_abs_threshold=config.balance_abs_threshold,
        balance_rel_threshold=config.balance_rel_threshold,
        text="hex" if hexadecimal else "tokens",
    )
    blocks = prefix_columns(log.requests, log.block_tokens, _spelled if hexadecimal else int)
    given: dict[str, Any] = {**columns(log.requests), **blocks}
    outcome = watch(sglang.cluster(log), given, policy, inst.requests, leap=leap)
    return {
        "loads": outcome.watched.reshape(-1, log.instances).astype(int).tolist(),
        **sglang.decided(outcome),
    }
