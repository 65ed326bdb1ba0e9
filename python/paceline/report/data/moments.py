"""A replay over time, as far as its requests tell: exact at the edges of equal intervals."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from paceline.report.replayed import Replayed, Run

__all__ = ["edges_of", "over_time", "percentiles_over_time", "roles_over_time"]

INTERVALS: Final = 150


def edges_of(result: Replayed, intervals: int) -> NDArray[np.float64]:
    """Return the edges of equal intervals from the trace's start to the end of the replay."""
    end = result.totals().simulated_s
    return np.linspace(0.0, end if end > 0 else 1.0, intervals + 1)


def over_time(runs: tuple[Run, ...], intervals: int = INTERVALS) -> pl.DataFrame:
    """Return a row per run and interval.

    Returns
    -------
    polars.DataFrame
        ``run``; ``time_s``, the end of the interval; ``arrivals``, ``finished`` and ``tokens`` (output tokens
        of requests that finished), per second of the interval; ``in_flight``, requests that arrived and are
        neither finished nor rejected, and ``waiting``, those of them that no step has run yet: states at
        the interval's end; with ``_low`` and ``_high`` appended, the least and the most of the two in it.
        A rejected request counts until it leaves its router, also where an instance rejected it later: a
        result does not say when.
    """
    return pl.concat([_over_time(run, intervals) for run in runs])


def _over_time(run: Run, intervals: int) -> pl.DataFrame:
    of = run.result
    edges = edges_of(of, intervals)
    status = of.column("status")
    arrival, held = of.column("arrival"), of.column("held")
    entered = arrival.filter(status != "not_arrived")
    refused = status.is_in(["rejected", "gave_up"])
    cancelled = of.column("cancelled_at").drop_nulls()
    gone = pl.concat([(arrival + held).filter(refused), cancelled])
    finish, scheduled = of.column("finish").drop_nulls(), of.column("scheduled").filter(~refused).drop_nulls()
    tokens = of.column("output_tokens").filter(of.column("finish").is_not_null())
    width = edges[1] - edges[0]

    def count(series: pl.Series, weights: pl.Series | None = None) -> NDArray[np.float64]:
        # The last edge belongs to the last interval.
        values = np.minimum(series.to_numpy(), edges[-1])
        weighed = None if weights is None else weights.to_numpy().astype(np.float64)
        return np.histogram(values, edges, weights=weighed)[0].astype(np.float64)

    arrived, left, done = count(entered), count(gone), count(finish)
    in_flight = np.cumsum(arrived - left - done)
    queued = of.column("cancelled_at").filter(of.column("scheduled").is_null()).drop_nulls()
    waiting = np.cumsum(arrived - (left - count(cancelled)) - count(queued) - count(scheduled))
    flights = _extremes(entered, pl.concat([gone, finish]), edges)
    waits = _extremes(entered, pl.concat([gone, scheduled]), edges)
    return pl.DataFrame(
        {
            "run": [run.name] * intervals,
            "time_s": edges[1:],
            "arrivals": arrived / width,
            "finished": done / width,
            "tokens": count(finish, tokens) / width,
            "in_flight": np.rint(in_flight),
            "waiting": np.rint(waiting),
            "in_flight_low": flights[0],
            "in_flight_high": flights[1],
            "waiting_low": waits[0],
            "waiting_high": waits[1],
        }
    )


def _extremes(came: pl.Series, went: pl.Series, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the least and the most requests in each interval, of those that came and have not gone."""
    moments = np.concatenate([came.to_numpy(), went.to_numpy()])
    changes = np.concatenate([np.ones(len(came)), -np.ones(len(went))])
    at, place = np.unique(np.minimum(moments, edges[-1]), return_inverse=True)
    level = np.cumsum(np.bincount(place, weights=changes, minlength=len(at)))
    # What holds from each of these moments on: the changes, and the state at the start of each interval.
    starts = edges[:-1]
    held = np.concatenate([[0.0], level])[np.searchsorted(at, starts, side="right")]
    everything = np.concatenate([starts, at])
    levels = np.concatenate([held, level])
    interval = np.clip(np.searchsorted(edges, everything, side="right") - 1, 0, len(starts) - 1)
    low, high = np.full(len(starts), np.inf), np.full(len(starts), -np.inf)
    np.minimum.at(low, interval, levels)
    np.maximum.at(high, interval, levels)
    found: NDArray[np.float64] = np.rint(np.stack([low, high]))
    return found


def percentiles_over_time(runs: tuple[Run, ...], metric: str, intervals: int = 80) -> pl.DataFrame:
    """Return columns ``run``, ``time_s``, ``requests``, ``p50`` and ``p99`` of requests by their arrival.

    A row for each interval up to the last arrival; ``p50`` and ``p99`` are null where no request arrived.
    """
    frames = []
    for run in runs:
        of = pl.DataFrame(
            {"at": run.result.column("arrival"), "seconds": run.result.column(metric)}
        ).drop_nulls()
        if of.is_empty():
            continue
        width = max(float(of["at"].max()), 1e-9) / intervals  # type: ignore[arg-type] # there is a number
        bucket = (pl.col("at") / width).floor().clip(0, intervals - 1).cast(pl.Int64)
        found = of.group_by(bucket.alias("interval")).agg(
            pl.len().cast(pl.Int64).alias("requests"),
            pl.col("seconds").quantile(0.5, "linear").alias("p50"),
            pl.col("seconds").quantile(0.99, "linear").alias("p99"),
        )
        every = pl.DataFrame({"interval": range(intervals)}, schema={"interval": pl.Int64()})
        frames.append(
            every.join(found, on="interval", how="left", maintain_order="left").select(
                pl.lit(run.name).alias("run"),
                (pl.col("interval") * width).alias("time_s"),
                pl.col("requests").fill_null(0),
                "p50",
                "p99",
            )
        )
    schema = {
        "run": pl.String(),
        "time_s": pl.Float64(),
        "requests": pl.Int64(),
        "p50": pl.Float64(),
        "p99": pl.Float64(),
    }
    return pl.concat(frames) if frames else pl.DataFrame(schema=schema)


def roles_over_time(run: Run, intervals: int = INTERVALS) -> pl.DataFrame:
    """Return columns ``time_s``, ``role`` and ``instances``: how many are in each pool at each edge."""
    roles = run.result.roles
    edges = edges_of(run.result, intervals)[:-1]
    frames = []
    for role in roles["role"].unique(maintain_order=True):
        of = roles.filter(pl.col("role") == role)
        began = np.searchsorted(np.sort(of["from_s"].to_numpy()), edges, side="right")
        ended = np.searchsorted(np.sort(of["to_s"].to_numpy()), edges, side="right")
        columns = {"time_s": edges, "role": [role] * len(edges), "instances": began - ended}
        frames.append(pl.DataFrame(columns))
    schema = {"time_s": pl.Float64(), "role": pl.String(), "instances": pl.Int64()}
    return pl.concat(frames) if frames else pl.DataFrame(schema=schema)
