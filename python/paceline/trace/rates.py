"""Rates of a trace, and its arrivals on the engine's clock."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from paceline._check import is_number, said
from paceline._clock import TICKS_PER_SECOND
from paceline.errors import TraceError

__all__ = ["arrival_ticks", "check_rate"]


def check_rate(name: str, span_s: float, *, scale: float | None, rate: float | None) -> None:
    """Check the arguments of `Trace.at_rate`.

    Raises
    ------
    TraceError
        Neither or both are given, either is not positive and finite, or a trace of one instant has no rate.
    """
    if (scale is None) == (rate is None):
        raise TraceError(f"at_rate needs exactly one of scale and rate, was scale={scale}, rate={rate}")
    given, what = (rate, "rate") if scale is None else (scale, "scale")
    if given is None or not (is_number(given) and given > 0):
        raise TraceError(f"{what} must be a positive finite number, was {said(given)}")
    if scale is None and span_s == 0:
        raise TraceError(f"{name}: cannot set a rate, all requests arrive at one instant")


def arrival_ticks(frame: pl.DataFrame) -> npt.NDArray[np.uint64]:
    """Return arrivals in ticks, rounded to the nearest, ties to even; not to be changed."""
    seconds = frame.get_column("arrival").to_numpy()
    ticks: npt.NDArray[np.uint64] = np.rint(seconds * TICKS_PER_SECOND).astype(np.uint64)
    ticks.flags.writeable = False
    return ticks
