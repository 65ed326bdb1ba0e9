"""How long after an answer the next turn of its session came."""

from __future__ import annotations

import polars as pl

__all__ = ["think_times"]


def think_times(
    arrival: pl.Series, session: pl.Series, *, busy: pl.Series | None = None, counts: pl.Series | None = None
) -> pl.Series:
    """Return the column ``think_time``: null for a session's first turn and for rows without a session.

    A turn's think time is its arrival less the arrival of the turn before it, less what that turn took, and
    at least 0. Turns are in order of arrival, equal arrivals in the order of rows.

    Parameters
    ----------
    arrival
        Seconds.
    session
        Names; null: a request of no session.
    busy
        Seconds from each request to the end of its answer; null, or None for all: not recorded, and 0.
    counts
        Whether a row is a turn; None: all are. Others are passed over, as requests that failed.

    Examples
    --------
    >>> at, of = pl.Series([0.0, 1.0, 5.0, 9.0]), pl.Series(["a", "b", "a", "a"])
    >>> think_times(at, of, busy=pl.Series([2.0, 0.0, 7.0, 0.0])).to_list()
    [None, None, 3.0, 0.0]
    """
    frame = pl.DataFrame(
        {
            "row": pl.Series(range(len(arrival)), dtype=pl.UInt32),
            "arrival": arrival.cast(pl.Float64),
            "session": session.cast(pl.String),
            "busy": pl.Series([0.0] * len(arrival)) if busy is None else busy.cast(pl.Float64).fill_null(0.0),
        }
    )
    turns = frame.filter(pl.col("session").is_not_null() & (True if counts is None else counts))
    turns = turns.sort("arrival", maintain_order=True)
    end = (pl.col("arrival").shift(1) + pl.col("busy").shift(1)).over("session")
    thought = turns.select("row", (pl.col("arrival") - end).clip(lower_bound=0.0).alias("think_time"))
    return frame.select("row").join(thought, on="row", how="left", maintain_order="left")["think_time"]
