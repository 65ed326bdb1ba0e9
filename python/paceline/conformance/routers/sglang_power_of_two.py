"""Logs of SGLang's gateway under power of two (sgl-model-gateway 0.3.2, src/policies/power_of_two.rs)."""

from __future__ import annotations

import msgspec

from paceline.conformance.routers import sglang
from paceline.conformance.routers.bounds import Seed
from paceline.conformance.routers.decided import Decided
from paceline.conformance.routers.replay import columns, run
from paceline.policies.power_of_two import power_of_two

__all__ = ["Log", "recorded", "replayed"]


class _Config(msgspec.Struct):
    rng_seed: Seed


class Log(sglang.SglangLog, kw_only=True):
    """What a file holds."""

    config: _Config


recorded = sglang.recorded


def replayed(log: Log, *, leap: bool, follow: bool) -> Decided:
    """Replay a log: of two drawn instances, the first unless the second has fewer requests in flight."""
    del follow  # ties go to the first that was drawn, by the log's generator
    policy = power_of_two(seed=log.config.rng_seed)
    return sglang.decided(run(sglang.cluster(log), columns(log.requests), policy, leap=leap))
