"""Rates over time, and arrivals moved to follow one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import polars as pl

from paceline.errors import TraceError

__all__ = ["RateShape", "mover"]

Floats: TypeAlias = npt.NDArray[np.float64]


@runtime_checkable
class RateShape(Protocol):
    """A rate of arrivals over time: `Ramp`, `Steps`, `Diurnal`, `OnOff` of `paceline.synthesis`."""

    def moments(self, counts: Floats, *, seed: int = 0) -> Floats:
        """Return when the expected number of arrivals since 0 reaches each of `counts`, in seconds."""
        ...


def mover(frame: pl.DataFrame, shape: RateShape, seed: int, name: str) -> Callable[[pl.Expr], pl.Expr]:
    """Return the map of a trace's moments after which the rate of its arrivals follows a shape.

    The place of a moment between the first and the last arrival becomes a number of expected arrivals, and
    the shape says when that number is reached. So bursts stay: where twice as many came as the mean rate
    says, twice as many come as the shape says. Only requests that wait for no answer are counted; the others
    keep their place between them.

    Raises
    ------
    TraceError
        If all requests arrive at one instant.
    """
    waits = pl.lit(value=False)
    if "think_time" in frame.columns:
        waits |= pl.col("think_time").is_not_null()
    if "parents" in frame.columns:
        waits |= pl.col("parents").list.len() > 0
    own = frame.filter(~waits.fill_null(value=False)).get_column("arrival")
    span = float(own[-1] - own[0]) if len(own) else 0.0
    if span <= 0:
        raise TraceError(f"{name}: cannot follow a rate, all requests arrive at one instant")
    start, rate = float(own[0]), (len(own) - 1) / span

    def moved(moments: pl.Series) -> pl.Series:
        known = moments.drop_nulls().to_numpy()
        found = shape.moments(np.maximum((known - start) * rate, 0.0), seed=seed)
        values = np.full(len(moments), np.nan)
        values[moments.is_not_null().to_numpy()] = np.rint(found * 1e9) / 1e9
        return pl.Series(moments.name, values).fill_nan(None)

    return lambda moment: moment.map_batches(moved, return_dtype=pl.Float64)
