"""Instances that start and stop by saturation, as llm-d's Workload Variant Autoscaler decides."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.switched import PRESENT, switched
from paceline.policy import Policy, Scheduler, cluster, gauge, inst, maximum, scale, where
from paceline.policy.expressions.tree import Expr

__all__ = ["wva"]


@typed(PolicyError)
def wva(
    *,
    serving: int = 1,
    off: int = 1,
    least: int = 1,
    most: int | None = None,
    kv_threshold: float = 0.8,
    queue_threshold: float = 5.0,
    kv_spare: float = 0.1,
    queue_spare: float = 3.0,
    period_s: float = 60.0,
    peak_s: tuple[float, float] = (60.0, 15.0),
    start_s: float = 60.0,
    scheduler: Scheduler | None = None,
) -> Policy:
    """Start an instance if the unsaturated ones have little to spare, and stop one if the others suffice.

    The load of an instance is its peak of KV use and its peak of waiting requests in a minute. It is
    saturated if either has reached its threshold. What the others lack of the thresholds, on average, is to
    spare. If that is less than `kv_spare` or `queue_spare`, one instance is added. If it would still be as
    much with the same load on one instance fewer, one is removed. While one starts, nothing is decided. An
    instance that is told to stop gets no requests, and stops when its last one finishes.

    Parameters
    ----------
    serving, off
        Instances that serve at the start, and those that may be started.
    least, most
        Bounds of the instances that serve or start; None: all.
    kv_threshold, queue_threshold
        The KV use, 0 to 1, and the waiting requests at which an instance is saturated
        (``kvCacheThreshold``, ``queueLengthThreshold``).
    kv_spare, queue_spare
        What is to be left of them on average (``kvSpareTrigger``, ``queueSpareTrigger``).
    period_s
        Seconds between two decisions (``GLOBAL_OPT_INTERVAL``).
    peak_s
        Seconds of which the peak counts, and seconds between two readings in them.
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
    >>> policy = wva(serving=2, off=6, start_s=90.0)
    >>> [seconds for seconds, _ in policy.monitors]
    [15.0, 60.0]

    Notes
    -----
    Source: llm-d/llm-d-workload-variant-autoscaler at 36587f8c, ``internal/saturation/analyzer.go`` (the
    percentage-based analyzer, with its defaults), and ``max_over_time(...[1m])`` of its collector.
    Differences: there is one variant, so its costs choose nothing; a decision takes effect at once, where an
    HPA reads it every 15 s and may delay it by windows of its own; the instance that stops is the one with
    the fewest requests; there is no scaling to zero.
    """
    window_s, scrapes_s = peak_s
    kv, queue = inst.gauge("kv_usage"), inst.gauge("waiting")
    free = (kv < kv_threshold) & (queue < queue_threshold)
    present, unsaturated = cluster.count(within="serving"), cluster.count(free, within="serving")

    def spare(load: Expr, threshold: float) -> Expr:
        """Return what unsaturated instances lack of a threshold, on average; 0 if all are saturated."""
        lacking = cluster.sum(where(free, threshold - load, 0), within="serving")
        return lacking / maximum(unsaturated, 1)

    def left(load: Expr, threshold: float) -> Expr:
        """Return the same with one instance fewer."""
        return threshold - (threshold - spare(load, threshold)) * unsaturated / (unsaturated - 1)

    short = (spare(kv, kv_threshold) < kv_spare) | (spare(queue, queue_threshold) < queue_spare)
    enough = (left(kv, kv_threshold) >= kv_spare) & (left(queue, queue_threshold) >= queue_spare)
    fewer = (unsaturated >= 2) & enough
    size = scale(
        where(short, present + 1, where(fewer, present - 1, present)),
        pool="serving",
        off="off",
        when=cluster.count(within=PRESENT) == present,
        least=least,
        most=most,
    )
    peaks = [
        gauge("kv_usage", inst.kv_usage, take="max", window_s=window_s, within="serving"),
        gauge("waiting", inst.waiting, take="max", window_s=window_s, within="serving"),
    ]
    return switched(
        "wva",
        [(scrapes_s, peaks), (period_s, [size])],
        serving=serving,
        off=off,
        start_s=start_s,
        scheduler=scheduler,
    )
