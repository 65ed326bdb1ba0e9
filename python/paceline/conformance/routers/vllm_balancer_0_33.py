"""Logs of vLLM 0.33.0's data-parallel balancer."""

from __future__ import annotations

from paceline.conformance.routers import vllm_balancer
from paceline.conformance.routers.decided import Decided
from paceline.errors import TraceError
from paceline.policy import Rule, inst, maximum, pick, where

__all__ = ["Log", "recorded", "replayed", "rule"]

Log = vllm_balancer.BalancerLog
recorded = vllm_balancer.recorded


def rule(clients: int, kv_blocks: int) -> Rule:
    """Return the rule: the larger of the client's own count, times the clients, and of what is reported.

    If requests wait and over half of the KV is in use, a penalty is added. The scan
    begins one engine further with each choice.
    """
    waiting = inst.waiting + clients * inst.routed_since_report
    kv = inst.context_blocks / kv_blocks
    penalty = where(waiting > 0, waiting * 6.0 * maximum(0, kv - 0.5), 0)
    score = maximum(clients * inst.routed_requests, waiting + inst.running) + penalty
    return pick(min=score, ties="rotate")


def replayed(log: Log, *, leap: bool, follow: bool) -> Decided:
    """Replay a log."""
    del follow  # nothing is random
    if log.config.kv_blocks is None:
        raise TraceError("config.kv_blocks of a log of vLLM 0.33.0 must be a number of blocks, was null")
    score = rule(log.config.clients, log.config.kv_blocks)
    return vllm_balancer.replayed(log, score, tells_before=True, leap=leap)
