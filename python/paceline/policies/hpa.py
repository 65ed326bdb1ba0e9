"""Instances that start and stop as Kubernetes' Horizontal Pod Autoscaler decides, alone or under KEDA."""

from __future__ import annotations

from typing import Final, Literal

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.switched import PRESENT, switched
from paceline.policy import Policy, ScalingLimit, ScalingRules, Scheduler, cluster, inst, scale, where
from paceline.policy.expressions.tree import Expr

__all__ = ["hpa"]

Metric = Literal["waiting", "kv_usage", "requests"]

_METRICS: Final[dict[Metric, tuple[Expr, float]]] = {
    "waiting": (inst.waiting, 5.0),
    "kv_usage": (inst.kv_usage, 0.5),
    "requests": (inst.requests, 32.0),
}
"""The number of each instance that is added up, and the target of an instance unless it is given."""

_UP: Final = ScalingRules(
    limits=[ScalingLimit(per_s=15.0, instances=4), ScalingLimit(per_s=15.0, percent=100)]
)
_DOWN: Final = ScalingRules(window_s=300.0, limits=[ScalingLimit(per_s=15.0, percent=100)])


@typed(PolicyError)
def hpa(
    *,
    metric: Metric = "waiting",
    target: float | None = None,
    serving: int = 1,
    off: int = 1,
    least: int = 1,
    most: int | None = None,
    tolerance: float = 0.1,
    period_s: float = 15.0,
    start_s: float = 60.0,
    up: ScalingRules = _UP,
    down: ScalingRules = _DOWN,
    scheduler: Scheduler | None = None,
) -> Policy:
    """Have as many instances as a metric wants for a target of each, as Kubernetes' HPA does.

    Of n instances with a sum of the metric, ``sum / target`` are wanted, rounded up, unless the mean of an
    instance is within `tolerance` of the target. An instance that is told to stop gets no requests, and
    stops when its last one finishes.

    Parameters
    ----------
    metric
        The number of an instance: ``waiting`` requests (``vllm:num_requests_waiting``), ``kv_usage``, a share
        (``vllm:kv_cache_usage_perc``), or unfinished ``requests``.
    target
        The metric that an instance is to have; None: 5 waiting requests, 0.5 of the KV cache, or 32 requests.
        Guides use the first two; for the third, choose your own.
    serving, off
        Instances that serve at the start, and those that may be started.
    least, most
        Bounds of the instances that serve or start (``minReplicas``, ``maxReplicas``); None: all.
    tolerance
        The share of the target by which the mean may differ without a change.
    period_s
        Seconds between two decisions (``--horizontal-pod-autoscaler-sync-period``).
    start_s
        Seconds from the decision until the instance serves. It depends on model and host: no
        source gives it.
    up, down
        The behaviour of growing and shrinking. Unless given, Kubernetes' own: up by 4 instances or 100% in
        15 s, whichever is more; down to the largest number that was wanted in 300 s.
    scheduler
        How instances form their steps; None: as vLLM.

    Returns
    -------
    Policy
        The policy, for a cluster of ``serving + off`` instances.

    Raises
    ------
    PolicyError
        If `target` is not above 0, or `tolerance` is negative.

    Examples
    --------
    >>> policy = hpa(metric="kv_usage", target=0.7, serving=2, off=6, start_s=90.0)
    >>> policy.pools.leaving["off→serving"]
    90.0

    Notes
    -----
    Source: Kubernetes 1.34, ``pkg/controller/podautoscaler``: ``GetExternalPerPodMetricReplicas`` of
    ``replica_calculator.go`` (a metric of type ``External`` with an ``averageValue``, which is what KEDA's
    Prometheus trigger makes), and ``horizontal.go`` for windows and limits; for the defaults
    ``apis/autoscaling/v2/defaults.go``. Differences: the metric is read at the decision, where Prometheus
    has scraped it some seconds before, and it is not rounded to thousandths; the metrics of instances that
    stop are left out; there is no scaling to zero, which KEDA does itself; the instance that stops is the
    one with the fewest requests, after those that start.
    """
    of, usual = _METRICS[metric]
    wish = usual if target is None else target
    if not 0 < wish < float("inf"):
        raise PolicyError(f"target of hpa() must be above 0 and finite, was {target!r}")
    if not 0 <= tolerance < float("inf"):
        raise PolicyError(f"tolerance of hpa() must be 0 or more, was {tolerance!r}")
    total, present = cluster.sum(of, within=PRESENT), cluster.count(within=PRESENT)
    usage = total / (present * wish)
    settled = (usage >= 1 - tolerance) & (usage <= 1 + tolerance)
    size = scale(
        where(settled, present, total / wish),
        pool="serving",
        off="off",
        least=least,
        most=most,
        up=up,
        down=down,
    )
    every = [(period_s, [size])]
    return switched("hpa", every, serving=serving, off=off, start_s=start_s, scheduler=scheduler)
