"""The distribution of each latency, one row a metric.

Means, extremes and percentiles follow vLLM's `bench serve`: percentiles
interpolate linearly between ranks, as numpy does by default, and the standard
deviation is the population's (`ddof=0`). Every request for which a metric
exists counts, also one that `until` left unfinished after its first token.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl

from paceline._clock import TICKS_PER_SECOND
from paceline.result.columns import RequestColumns
from paceline.result.outcome import Sketch

__all__ = [
    "METRICS",
    "QUANTILES",
    "SUMMARY_SCHEMA",
    "Row",
    "metrics_of",
    "spread_of",
    "summarize",
    "summary_frame",
]

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

Row = dict[str, float | None]
"""The figures of a latency by name."""


def summarize(columns: RequestColumns, itl: Sketch) -> pl.DataFrame:
    """Return a row per metric: mean, std, min, percentiles and max in seconds, and a count."""
    spreads = {
        name: spread_of(columns[name]) for name in metrics_of(reasons=columns.reasons) if name != "itl"
    }
    return summary_frame(spreads, itl, reasons=columns.reasons)


def metrics_of(*, reasons: bool) -> tuple[str, ...]:
    """Return the metrics of a summary, of a trace that says which tokens are reasoning, or does not."""
    return (*METRICS, "ttfat") if reasons else METRICS


def summary_frame(spreads: Mapping[str, Row], itl: Sketch, *, reasons: bool) -> pl.DataFrame:
    """Return a summary, of the figures of each metric but `itl`."""
    rows = [
        {"metric": metric, **(_of_sketch(itl) if metric == "itl" else spreads[metric])}
        for metric in metrics_of(reasons=reasons)
    ]
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def spread_of(series: pl.Series) -> Row:
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


def _of_sketch(itl: Sketch) -> Row:
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
