"""How evenly the work is spread over instances."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from paceline.report.replayed import Run

__all__ = ["FIGURES", "imbalance", "of_instances"]

FIGURES: Final = {
    "busy_share": "Time in steps",
    "mean_kv_use": "KV use, mean",
    "finished": "Requests finished",
    "mean_waiting": "Waiting requests, mean",
}
"""The figures of an instance that a report shows."""


def of_instances(runs: tuple[Run, ...]) -> pl.DataFrame:
    """Return a row per run and instance: ``run``, ``instance``, ``role`` (at the start) and the figures."""
    frames = []
    for run in runs:
        roles = run.result.stats.roles or [None] * len(run.result.stats.instances)
        frame = run.result.instances.select("instance", *FIGURES, "peak_kv_use", "preemptions", "energy_j")
        frames.append(
            frame.with_columns(
                pl.Series("role", roles, dtype=pl.String()),
                pl.col("instance", "finished", "preemptions").cast(pl.Int64),
            ).insert_column(0, pl.lit(run.name).alias("run"))
        )
    return pl.concat(frames)


def imbalance(instances: pl.DataFrame) -> pl.DataFrame:
    """Return a row per run and figure: ``least``, ``mean``, ``most``, ``most_over_mean`` and ``variation``.

    The variation is the standard deviation over the mean.
    """
    rows = []
    for (run,), of in instances.group_by("run", maintain_order=True):
        for column, title in FIGURES.items():
            values = of[column].to_numpy().astype(np.float64)
            mean = float(values.mean())
            ratios = (float(values.max()) / mean, float(values.std()) / mean) if mean else (None, None)
            rows.append((run, title, float(values.min()), mean, float(values.max()), *ratios))
    names = ("least", "mean", "most", "most_over_mean", "variation")
    schema = {"run": pl.String(), "figure": pl.String(), **dict.fromkeys(names, pl.Float64())}
    return pl.DataFrame(rows, schema=schema, orient="row")
