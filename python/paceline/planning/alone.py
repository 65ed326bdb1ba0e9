"""Whether requests meet an objective where each is alone: what clusters come to as they grow.

With more instances than requests each request has an instance to itself, so a larger cluster changes nothing.
A policy that gathers requests may do better in company; there a search still tries the smaller clusters.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from paceline.deployment import Cluster
from paceline.planning.measured import Judge
from paceline.policy import Policy
from paceline.replaying import replay
from paceline.trace import Trace

__all__ = ["misses_alone"]

_APART_S: Final = 60.0
"""The first distance of arrivals. Policies that act every second would make a longer one slow."""

_FURTHER: Final = 16
"""How many times as far arrivals are spread where requests still meet."""

_SPAN_S: Final = 8_000_000.0
"""The longest time over which arrivals are spread: half of what the clock holds (185 days)."""


def misses_alone(
    trace: Trace,
    cluster: Cluster,
    policy: Policy,
    criterion: Judge,
    skipped: int,
) -> bool:
    """Return whether the objective is missed although no request meets another one.

    Parameters
    ----------
    trace
        The requests, whose arrivals are spread so far that each has ended before the next one arrives.
    cluster
        The smallest cluster of the policy.
    policy, criterion, skipped
        As of the search.

    Returns
    -------
    bool
        False also where requests meet nevertheless, because the clock is too short to keep them apart.
    """
    apart = _APART_S
    while len(trace) * apart <= _SPAN_S:
        result = replay(_spread(trace, apart), cluster, policy)
        longest = result.column("e2e").max()
        if not (isinstance(longest, float) and longest >= apart):
            return not criterion.judge([criterion.sample(result, slice(skipped, None))]).passes
        apart *= _FURTHER
    return False


def _spread(trace: Trace, apart: float) -> Trace:
    """Return a trace with so many seconds between two arrivals."""
    frame = trace.frame.with_columns(arrival=pl.Series(np.arange(len(trace)) * apart))
    return trace.with_frame(frame).by(None)
