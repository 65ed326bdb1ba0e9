"""The split of a request's time: queued, prefill, stalled, decode, preempted, blocked, in transfer."""

from __future__ import annotations

from typing import Final

import polars as pl

from paceline.report.replayed import Replayed, Run

__all__ = ["BANDS", "PARTS", "parts_by_band"]

PARTS: Final = ("queued", "prefill", "stalled in prefill", "decode", "preempted", "blocked", "in transfer")
"""The parts of an E2E latency. They add up to it."""

_COLUMNS: Final = (
    *("e2e", "scheduled", "first_token", "blocked", "executed", "preempted", "blocking", "transfer"),
    *("prefill_stall", "interrupted_prefill"),
)

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
    finished = pl.DataFrame([result.column(name) for name in _COLUMNS]).filter(pl.col("e2e").is_not_null())
    prefill = pl.col("first_token") - pl.col("scheduled") - pl.col("prefill_stall")
    stalled = pl.col("prefill_stall") - pl.col("interrupted_prefill")
    parts = {
        "queued": pl.col("blocked"),
        "prefill": prefill,
        "stalled in prefill": stalled,
        "decode": pl.col("executed") - prefill - stalled,
        "preempted": pl.col("preempted"),
        # Only reasoning requests are blocked; the column is null for others.
        "blocked": pl.col("blocking").fill_null(0.0),
        "in transfer": pl.col("transfer"),
    }
    finished = finished.select("e2e", **parts).sort("e2e")
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
