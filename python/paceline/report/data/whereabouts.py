"""Where the requests in flight are at the sampled moments: running, waiting, or on no instance."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from paceline.report.replayed import Run

__all__ = ["PLACES", "whereabouts"]

PLACES: Final = {"running": "running", "waiting": "waiting or swapped out", "elsewhere": "elsewhere"}
"""Where a request in flight can be, by column."""

_MOST: Final = 300


def whereabouts(run: Run) -> pl.DataFrame:
    """Return a row for each of at most 300 sampled moments of a sampled run.

    Returns
    -------
    polars.DataFrame
        ``time_s``; ``running``; ``waiting``, swapped-out requests among them; ``elsewhere``, requests
        that are held by a router, delayed on the way to an instance, or between two; and ``in_flight``,
        the sum of the three: requests that have arrived and have not finished, given up or been rejected.
    """
    timeline: pl.DataFrame = run.result.timeline  # type: ignore[attr-defined] # only of sampled results
    states = (
        timeline.group_by("time_s")
        .agg(pl.col("running").sum(), (pl.col("waiting") + pl.col("swapped")).sum().alias("waiting"))
        .sort("time_s")
        .gather_every(-(-timeline["time_s"].n_unique() // _MOST))
        .with_columns(pl.col("running", "waiting").cast(pl.Int64))
    )
    at = states["time_s"].to_numpy()
    in_flight = _by(_entered(run), at) - _by(_gone(run), at)
    elsewhere = in_flight - states["running"].to_numpy() - states["waiting"].to_numpy()
    # A request that an instance rejected later than on arrival is on it, and not in flight by the result.
    return states.with_columns(pl.Series("elsewhere", np.maximum(elsewhere, 0))).with_columns(
        pl.sum_horizontal("running", "waiting", "elsewhere").alias("in_flight")
    )


def _by(moments: pl.Series, at: np.ndarray) -> np.ndarray:
    """Return how many moments are not after each of `at`."""
    return np.searchsorted(np.sort(moments.drop_nulls().to_numpy()), at, side="right").astype(np.int64)


def _entered(run: Run) -> pl.Series:
    return run.result.column("arrival").filter(run.result.column("status") != "not_arrived")


def _gone(run: Run) -> pl.Series:
    of = run.result
    refused = of.column("status").is_in(["rejected", "gave_up"])
    return pl.concat(
        [
            (of.column("arrival") + of.column("held")).filter(refused),
            *(of.column(name).drop_nulls() for name in ("finish", "cancelled_at")),
        ]
    )
