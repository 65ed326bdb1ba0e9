"""Logs of vLLM 0.11.0's data-parallel balancer."""

from __future__ import annotations

from paceline.conformance.routers import vllm_balancer
from paceline.conformance.routers.decided import Decided
from paceline.policies.vllm_balancer import balancer_rule
from paceline.policy import inst

__all__ = ["Log", "recorded", "replayed"]

Log = vllm_balancer.BalancerLog
recorded = vllm_balancer.recorded


def replayed(log: Log, *, leap: bool, follow: bool) -> Decided:
    """Replay a log."""
    del follow  # nothing is random
    rule = balancer_rule("0.11", log.config.clients, inst.kv_usage)
    return vllm_balancer.replayed(log, rule, tells_before=False, leap=leap)
