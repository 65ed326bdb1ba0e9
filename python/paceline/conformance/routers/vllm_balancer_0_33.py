"""Logs of vLLM 0.33.0's data-parallel balancer."""

from __future__ import annotations

from paceline.conformance.routers import vllm_balancer
from paceline.conformance.routers.decided import Decided
from paceline.errors import TraceError
from paceline.policies.vllm_balancer import balancer_rule
from paceline.policy import inst

__all__ = ["Log", "recorded", "replayed"]

Log = vllm_balancer.BalancerLog
recorded = vllm_balancer.recorded


def replayed(log: Log, *, leap: bool, follow: bool) -> Decided:
    """Replay a log."""
    del follow  # nothing is random
    if log.config.kv_blocks is None:
        raise TraceError("config.kv_blocks of a log of vLLM 0.33.0 must be a number of blocks, was null")
    kv_usage = inst.context_blocks / log.config.kv_blocks
    rule = balancer_rule("0.33", log.config.clients, kv_usage)
    return vllm_balancer.replayed(log, rule, tells_before=True, leap=leap)
