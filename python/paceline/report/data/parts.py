"""The split of a request's time: queued, executed, preempted, blocked, in transfer."""

from __future__ import annotations

from typing import Final

import polars as pl

from paceline.report.replayed import Replayed, Run

__all__ = ["BANDS", "PARTS", "parts_by_band"]

PARTS: Final = {
    "queued": "blocked",
    "executed": "executed",
    "preempted": "preempted",
    "blocked": "blocking",
    "in transfer": "transfer",
}
"""The parts of an E2E latency and their columns of requests. They add up to it."""

BANDS: Final = {
    "fastest half": (0.0, 0.5),
    "p50 to p90": (0.5, 0.9),
    "p90 to p99": (0.9, 0.99),
    "slowest 1%": (0.99, 1.0),
}
"""Groups of requests by the rank of their E2E latency."""


def parts_by_band(runs: tuple[Run, ...]) -> pl.DataFrame:
    """Return columns ``run``, ``band``, ``requests``, ``part``, ``seconds`` (a mean) and ``share`` of E2E.

    The band ``all`` has all finished requests.
    """
    return pl.concat([_parts(run.result).insert_column(0, pl.lit(run.name).alias("run")) for run in runs])


def _parts(result: Replayed) -> pl.DataFrame:
    frame = pl.DataFrame({name: result.column(column) for name, column in PARTS.items()})
    finished = frame.with_columns(result.column("e2e")).filter(pl.col("e2e").is_not_null())
    # Only reasoning requests are blocked; the column is null for others.
    finished = finished.with_columns(pl.col(*PARTS).fill_null(0.0)).sort("e2e")
    count = finished.height
    rows = []
    for band, (low, high) in {"all": (0.0, 1.0), **BANDS}.items():
        first, last = round(low * count), round(high * count)
        means = finished.slice(first, last - first).select(pl.all().mean()).row(0, named=True)
        if last > first:
            rows += [
                (band, last - first, part, means[part], means[part] / means["e2e"] if means["e2e"] else 0.0)
                for part in PARTS
            ]
    schema = {
        "band": pl.String(),
        "requests": pl.Int64(),
        "part": pl.String(),
        "seconds": pl.Float64(),
        "share": pl.Float64(),
    }
    return pl.DataFrame(rows, schema=schema, orient="row")
