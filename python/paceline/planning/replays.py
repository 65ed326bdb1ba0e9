"""Replays for a search: on any thread, with the share that is done, and stopped when no longer wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline._cores import threads
from paceline._jobs import Heed
from paceline.deployment import Cluster
from paceline.policy import Policy
from paceline.replaying import replay
from paceline.result import Result
from paceline.trace import Trace

if TYPE_CHECKING:
    from paceline._core import Progress

__all__ = ["concurrent", "gpus_of", "replayed"]


def replayed(trace: Trace, cluster: Cluster, policy: Policy, heed: Heed) -> Result:
    """Replay a trace, and call `heed` with the share that is done."""

    def progress(at: Progress) -> None:
        heed(at.finished / max(at.total, 1))

    heed(0.0)
    result = replay(trace, cluster, policy, progress=progress)
    heed(1.0)
    return result


def gpus_of(cluster: Cluster) -> int:
    """Return the number of GPUs of a cluster."""
    return sum(each.tensor_parallel * each.pipeline_parallel for each in cluster.instances)


def concurrent(policy: object, workers: int | None) -> int:
    """Return how many replays run at a time: one if a policy has rules that are Python functions.

    Such functions may keep state, on which the order of concurrent replays would then have an influence.
    """
    number = threads(workers)
    return 1 if isinstance(policy, Policy) and policy.calls else number
