"""Logs of SGLang's gateway under round robin (sgl-model-gateway 0.3.2, src/policies/round_robin.rs)."""

from __future__ import annotations

from paceline.conformance.routers import sglang
from paceline.conformance.routers.decided import Decided
from paceline.conformance.routers.replay import columns, run
from paceline.policy import Policy

__all__ = ["Log", "recorded", "replayed"]

Log = sglang.SglangLog
recorded = sglang.recorded


def replayed(log: Log, *, leap: bool, follow: bool) -> Decided:
    """Replay a log: request k goes to instance k modulo their number."""
    del follow  # nothing is random
    policy = Policy(name=log.router, on_arrival="round_robin")
    return sglang.decided(run(sglang.cluster(log), columns(log.requests), policy, leap=leap))
