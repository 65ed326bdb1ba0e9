"""Logs of vLLM 0.11.0's data-parallel balancer."""

from __future__ import annotations

from paceline.conformance.routers import vllm_balancer
from paceline.conformance.routers.decided import Decided
from paceline.policy import Rule, inst, pick

__all__ = ["Log", "recorded", "replayed", "rule"]

Log = vllm_balancer.BalancerLog
recorded = vllm_balancer.recorded


def rule(clients: int) -> Rule:
    """Return the rule: 4 waiting + running, as reported, and ``clients`` more waiting for each choice since.

    A client scans from its own beginning and keeps the first minimum.
    """
    waiting = inst.waiting + clients * inst.routed_since_report
    return pick(min=4 * waiting + inst.running, ties="spread")


def replayed(log: Log, *, leap: bool, follow: bool) -> Decided:
    """Replay a log."""
    del follow  # nothing is random
    return vllm_balancer.replayed(log, rule(log.config.clients), tells_before=False, leap=leap)
