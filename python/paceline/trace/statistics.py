"""Summary statistics of a trace."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

__all__ = ["summarized"]

_SCHEMA: Final = {
    "quantity": pl.String(),
    "count": pl.UInt64(),
    "sum": pl.Float64(),
    "mean": pl.Float64(),
    "cv": pl.Float64(),
    "p50": pl.Float64(),
    "p90": pl.Float64(),
    "p99": pl.Float64(),
    "max": pl.Float64(),
}


def summarized(frame: pl.DataFrame) -> pl.DataFrame:
    """Describe a checked frame; see `Trace.summary`."""
    gaps = pl.Series("gap_s", np.diff(frame.get_column("arrival").to_numpy()))
    lengths = [
        frame.get_column(name)
        for name in ("prompt_tokens", "output_tokens", "reasoning_tokens")
        if name in frame.columns
    ]
    return pl.DataFrame([_described(column) for column in [gaps, *lengths]], schema=_SCHEMA, orient="row")


def _described(column: pl.Series) -> tuple[str | int | float | None, ...]:
    if len(column) == 0:
        return (column.name, 0, *[None] * 7)
    values = column.to_numpy()
    total = float(values.sum(dtype=np.float64))
    mean = total / len(values)
    cv = float(values.std(dtype=np.float64)) / mean if mean > 0 else None
    p50, p90, p99 = (column.quantile(q, interpolation="linear") for q in (0.5, 0.9, 0.99))
    return column.name, len(values), total, mean, cv, p50, p90, p99, float(values.max())
