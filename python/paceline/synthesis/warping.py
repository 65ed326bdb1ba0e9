"""Arrivals moved in time, so that their rate follows a shape."""

from __future__ import annotations

import math

import numpy as np

from paceline.synthesis.arrivals import Arrivals
from paceline.synthesis.stable import Floats
from paceline.trace.shapes import RateShape

__all__ = ["along", "warped"]


def along(counts: Floats, starts: Floats, rates: Floats) -> Floats:
    """Return when a rate that is constant from each of `starts` on has reached each of `counts`.

    A count that is reached where the rate is 0 is that of the next moment at which it is not: nothing arrives
    in a pause.
    """
    reached = np.concatenate([[0.0], np.cumsum(np.diff(starts) * rates[:-1])])
    stage = np.searchsorted(reached, counts, side="right") - 1
    last = int(np.flatnonzero(rates > 0)[-1])
    np.clip(stage, 0, last, out=stage)
    found: Floats = starts[stage] + (counts - reached[stage]) / rates[stage]
    return found


def warped(shape: RateShape, process: Arrivals, count: int, rate: float, seed: int) -> Floats:
    """Return the times of a process of mean rate 1, moved to where a shape, times `rate`, reaches them."""
    unit = process.times(count, 1.0, seed)
    if math.isinf(rate):
        return np.zeros(count, dtype=np.float64)
    return shape.moments(unit / rate, seed=seed)
