"""The distribution of each latency, one row a metric.

Means, extremes and percentiles follow vLLM's `bench serve`: percentiles
interpolate linearly between ranks, as numpy does by default, and the standard
deviation is the population's (`ddof=0`). Every request for which a metric
exists counts, also one that `until` left unfinished after its first token.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import polars as pl

from paceline._clock import TICKS_PER_SECOND
from paceline.result.columns import RequestColumns
from paceline.result.outcome import Sketch

__all__ = ["METRICS", "QUANTILES", "SUMMARY_SCHEMA", "spread_of", "summarize"]

METRICS: Final = ("ttft", "tpot", "itl", "e2e", "normalized_latency", "queueing")
QUANTILES: Final = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}

# A frame of more than eight columns is printed with its first four and its last four.
_FIGURES: Final = ("p50", "p90", "p99", "p95", "std", "mean", "min", "max")

SUMMARY_SCHEMA: Final[dict[str, pl.DataType]] = {
    "metric": pl.String(),
    **dict.fromkeys(_FIGURES, pl.Float64()),
    "count": pl.UInt64(),
}
"""Names and types of the columns of a summary, in order."""

_Row = dict[str, float | None]


def summarize(columns: RequestColumns, itl: Sketch) -> pl.DataFrame:
    """Return a row per metric: mean, std, min, percentiles and max in seconds, and a count."""
    rows = [
        {"metric": metric, **(_of_sketch(itl) if metric == "itl" else spread_of(columns[metric]))}
        for metric in (*METRICS, *(("ttfat",) if columns.reasons else ()))
    ]
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def spread_of(series: pl.Series) -> _Row:
    """Return exact figures of a column's values: mean, std, percentiles and so on; null without values."""
    values = series.drop_nulls().to_numpy()
    if values.size == 0:
        return {**dict.fromkeys(_FIGURES), "count": 0}
    percentiles = np.quantile(values, list(QUANTILES.values()))
    return {
        "mean": float(values.mean()),
        "std": float(values.std()),
        "min": float(values.min()),
        **dict(zip(QUANTILES, percentiles.tolist(), strict=True)),
        "max": float(values.max()),
        "count": values.size,
    }


def _of_sketch(itl: Sketch) -> _Row:
    """Return figures of the token gaps: percentiles within the sketch's error, the others exact."""
    if itl.min_ticks is None or itl.max_ticks is None or itl.variance is None:
        return {**dict.fromkeys(_FIGURES), "count": 0}
    return {
        "mean": itl.sum_ticks / itl.count / TICKS_PER_SECOND,
        "std": math.sqrt(itl.variance),
        "min": itl.min_ticks / TICKS_PER_SECOND,
        **{name: itl.quantile_s(q) for name, q in QUANTILES.items()},
        "max": itl.max_ticks / TICKS_PER_SECOND,
        "count": itl.count,
    }
