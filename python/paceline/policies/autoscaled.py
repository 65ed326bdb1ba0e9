"""Instances that start and stop by load, as NVIDIA Dynamo's planner decides."""

from __future__ import annotations

from typing import Literal

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.switched import switched
from paceline.policy import Policy, Scheduler, cluster, first_of, flip, inst, pick

__all__ = ["autoscaled"]

_THRESHOLDS = {"throughput": (1.0, 0.6), "latency": (0.4, 0.1)}
"""Up and down, by the target of optimization."""


@typed(PolicyError)
def autoscaled(
    *,
    serving: int = 1,
    off: int = 1,
    least: int = 1,
    target: Literal["throughput", "latency"] = "throughput",
    up: float | None = None,
    down: float | None = None,
    period_s: float = 5.0,
    start_s: float = 60.0,
    scheduler: Scheduler | None = None,
) -> Policy:
    """Start an instance if any is above a load, and stop one if all are below another.

    The load of an instance is the tokens of its requests, queued ones included, over the
    tokens for which it has blocks. An instance that is told to stop gets no requests, and stops
    when its last one finishes. While one starts, nothing is decided. An instance that is off
    draws no power, and one that starts draws idle power.

    Parameters
    ----------
    serving, off
        Instances that serve at the start, and those that may be started.
    least
        Instances that are never stopped.
    target
        The thresholds: 1.0 and 0.6 for ``throughput``, 0.4 and 0.1 for ``latency``.
    up, down
        Other thresholds.
    period_s
        Seconds between two decisions.
    start_s
        Seconds from the decision until the instance serves. It depends on model and host: no
        source gives it.
    scheduler
        How instances form their steps; None: as vLLM.

    Returns
    -------
    Policy
        The policy, for a cluster of ``serving + off`` instances.

    Examples
    --------
    >>> autoscaled(serving=2, off=6, start_s=30.0).pools.leaving["off→serving"]
    30.0

    Notes
    -----
    Source: ai-dynamo/dynamo at 0c6da1ec, ``planner/core/load_scaling.py``
    (``_agg_easy_decision``, for prefill and decode on the same instances), and
    ``load_adjustment_interval_seconds`` of its configuration. Differences: a prompt that is being computed
    counts, where the source counts scheduled decodes, queued decodes and queued prompts; the
    planner's limits on GPUs and its floor by throughput are the sizes of the pools and
    `least`; the instance that stops is the one with the fewest tokens.
    """
    above, below = _THRESHOLDS[target]
    load = inst.outstanding_tokens / (inst.total_blocks * inst.block_tokens)
    settled = cluster.count(within="off→serving") == 0
    high = cluster.any(load > (above if up is None else up), within="serving")
    low = cluster.all(load < (below if down is None else down), within="serving")
    start = flip(pick(min=inst.index, within="off"), to="serving", when=settled & high, keep=0)
    stop = flip(pick(min=inst.outstanding_tokens, within="serving"), to="off", when=settled & low, keep=least)
    every = [(period_s, [first_of(start, stop)])]
    return switched("autoscaled", every, serving=serving, off=off, start_s=start_s, scheduler=scheduler)
