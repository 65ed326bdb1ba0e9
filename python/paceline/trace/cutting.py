"""Parts of a trace: windows of time, and random samples."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from paceline.errors import TraceError

__all__ = ["drawn_rows", "windowed"]


def windowed(frame: pl.DataFrame, name: str, start_s: float, end_s: float) -> pl.DataFrame:
    """Return the requests that arrive in a window, with time from its start; see `Trace.window`."""
    if not 0 <= start_s < end_s:
        raise TraceError(f"a window must have 0 <= start_s < end_s, was [{start_s}, {end_s})")
    arrival = pl.col("arrival")
    cut = frame.filter((arrival >= start_s) & (arrival < end_s)).with_columns(arrival - start_s)
    if "not_before" in cut.columns:
        cut = cut.with_columns((pl.col("not_before") - start_s).clip(lower_bound=0))
    if cut.height == 0:
        last = frame.get_column("arrival")[-1]
        raise TraceError(f"{name}: no request arrives in [{start_s}, {end_s}) s, the last at {last} s")
    return cut


def drawn_rows(rows: int, n: int | None, fraction: float | None, seed: int) -> npt.NDArray[np.int64]:
    """Return the rows of a random sample, ascending; see `Trace.sample`."""
    if (n is None) == (fraction is None):
        raise TraceError(f"sample needs exactly one of n and fraction, was n={n}, fraction={fraction}")
    if fraction is not None:
        if not 0 < fraction <= 1:
            raise TraceError(f"fraction must be above 0 and at most 1, was {fraction}")
        n = max(1, round(fraction * rows))
    assert n is not None
    if not 1 <= n <= rows:
        raise TraceError(f"n must be from 1 to the {rows} requests of the trace, was {n}")
    draws = np.random.PCG64(seed).random_raw(rows)
    return np.sort(np.argsort(draws, kind="stable")[:n])
