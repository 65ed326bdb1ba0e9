"""Distributions of latencies as quantiles on a fixed grid, whatever the number of requests."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from paceline.report.replayed import Replayed, Run

__all__ = ["GRID", "METRICS", "SHOWN", "distributions", "histogram", "quantiles"]

METRICS: Final = {
    "ttft": "TTFT",
    "tpot": "TPOT",
    "itl": "ITL",
    "e2e": "E2E",
    "ttfat": "TTFAT",
    "queueing": "Queueing",
}
"""Latencies of a report by their column, with the field's names."""

# Every half per cent, and each decade of the tail down to one in a million.
_TAIL: Final = [1 - step * 10.0**-power for power in range(2, 7) for step in np.linspace(1.0, 0.1, 10)]
GRID: Final = np.unique(np.round([*np.linspace(0, 0.99, 199), *_TAIL, 1.0], 9))
"""The shares of requests at which a latency is read off."""

SHOWN: Final = {
    "min": 0.0,
    "p1": 0.01,
    "p10": 0.1,
    "p25": 0.25,
    "p50": 0.5,
    "p75": 0.75,
    "p90": 0.9,
    "p95": 0.95,
    "p99": 0.99,
    "p99.9": 0.999,
    "p99.99": 0.9999,
    "max": 1.0,
}
"""The quantiles of a table."""


def quantiles(result: Replayed, metric: str, shares: np.ndarray) -> np.ndarray | None:
    """Return the latency in seconds at each share of requests; None if no request has it.

    Quantiles interpolate linearly, as `Result.summary` does; those of ``itl`` come from its sketch.
    """
    if metric == "itl":
        if result.itl.count == 0:
            return None
        return np.array([result.itl.quantile_s(float(share)) for share in shares], dtype=np.float64)
    values = result.column(metric).drop_nulls()
    if len(values) == 0:
        return None
    ordered = values.sort().to_numpy()
    return np.asarray(np.interp(shares * (len(ordered) - 1), np.arange(len(ordered)), ordered))


def distributions(runs: tuple[Run, ...], metric: str) -> pl.DataFrame:
    """Return columns ``run``, ``share``, ``above`` (one less the share) and ``seconds``.

    Shares finer than one request are left out, so that a tail ends where the data does.
    """
    frames = []
    for run in runs:
        count = run.result.itl.count if metric == "itl" else run.result.column(metric).count()
        shares = np.array([share for share in GRID if share == 1.0 or (1 - share) * count >= 1])
        values = quantiles(run.result, metric, shares)
        if values is not None:
            columns = {"share": shares, "above": np.round(1 - shares, 9), "seconds": values}
            frames.append(pl.DataFrame({"run": [run.name] * len(shares), **columns}))
    return pl.concat(frames) if frames else pl.DataFrame(schema=_SCHEMA)


def histogram(series: pl.Series, bins: int) -> pl.DataFrame:
    """Return columns ``from``, ``to``, ``middle`` and ``requests``: counts in bins of equal width.

    The last bin holds all values above the 99.9th percentile, too; a histogram is not for the tail.
    """
    values = series.drop_nulls().to_numpy()
    if values.size == 0:
        return pl.DataFrame(schema=dict.fromkeys(("from", "to", "middle", "requests"), pl.Float64()))
    low, high = float(values.min()), float(np.quantile(values, 0.999))
    edges = np.linspace(low, high if high > low else low + 1e-9, bins + 1)
    counts, _ = np.histogram(np.minimum(values, edges[-1]), edges)
    starts, ends = edges[:-1], edges[1:]
    return pl.DataFrame({"from": starts, "to": ends, "middle": (starts + ends) / 2, "requests": counts})


_SCHEMA: Final = {
    "run": pl.String(),
    "share": pl.Float64(),
    "above": pl.Float64(),
    "seconds": pl.Float64(),
}
