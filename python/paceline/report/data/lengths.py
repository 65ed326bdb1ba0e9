"""Latencies by the length of prompts and outputs, in buckets that double."""

from __future__ import annotations

import polars as pl

from paceline.report.replayed import Run

__all__ = ["ENOUGH", "by_length"]

ENOUGH = 100
"""Requests of a bucket from which on it has a 99th percentile: of fewer it would be the largest."""


def by_length(runs: tuple[Run, ...], metric: str, length: str) -> pl.DataFrame:
    """Return a row per run and bucket of a length, with quantiles of a latency.

    Parameters
    ----------
    metric
        A latency of the requests.
    length
        ``prompt_tokens`` or ``output_tokens``.

    Returns
    -------
    polars.DataFrame
        Columns ``run``, ``tokens`` (the bucket's lower end, a power of two), ``up_to`` (its last length),
        ``requests``, ``p50``, ``p99`` (null below `ENOUGH` requests) and ``mean``.
    """
    seconds = pl.col("seconds")
    frames = []
    for run in runs:
        frame = pl.DataFrame({"tokens": run.result.column(length), "seconds": run.result.column(metric)})
        power = pl.col("tokens").cast(pl.Float64).log(2).floor().cast(pl.UInt32)
        frames.append(
            frame.drop_nulls()
            .with_columns(pl.when(pl.col("tokens") > 0).then(2**power).otherwise(0).alias("tokens"))
            .group_by("tokens")
            .agg(
                pl.len().alias("requests"),
                seconds.quantile(0.5, "linear").alias("p50"),
                pl.when(pl.len() >= ENOUGH).then(seconds.quantile(0.99, "linear")).alias("p99"),
                seconds.mean().alias("mean"),
            )
            .sort("tokens")
            .select(
                pl.lit(run.name).alias("run"),
                pl.col("tokens").cast(pl.Int64),
                (2 * pl.col("tokens").cast(pl.Int64) - 1).clip(lower_bound=0).alias("up_to"),
                pl.col("requests").cast(pl.Int64),
                "p50",
                "p99",
                "mean",
            )
        )
    return pl.concat(frames)
