"""Sessions that begin in their middle, and the requests that warm caches up before."""

from __future__ import annotations

from typing import Final

import polars as pl

__all__ = ["WARM_UP", "started_at", "with_starts"]

WARM_UP: Final = "warm_up"
"""The column that says which requests warm up."""

_BEFORE: Final = "seconds before the starting point"


def started_at(play: pl.DataFrame, share: float, *, warm_up: bool) -> pl.DataFrame:
    """Return the requests of a session from a share of its span on; of the last one, at least.

    Parameters
    ----------
    play
        The requests in order of arrival.
    share
        Of the span of the arrivals; of the number of requests, if all have one arrival.
    warm_up
        Whether to keep the last request before the share, too: of each session that goes on after it, or
        of the whole, where requests have no session. The column `WARM_UP` says which these are.
    """
    first, last = play["arrival"][0], play["arrival"][-1]
    moment = first + share * (last - first)
    count = int(play["arrival"].search_sorted(moment)) if last > first else int(share * play.height)
    before = min(count, play.height - 1)
    kept = play[before:]
    if not warm_up:
        return kept
    cut = play[:before]
    if "session" in play.columns:
        goes_on = kept["session"].drop_nulls().unique()
        primers = cut.filter(pl.col("session").is_in(goes_on.implode())).unique(
            "session", keep="last", maintain_order=True
        )
    else:
        primers = cut.tail(1)
    marked = [
        primers.with_columns(pl.lit(value=True).alias(WARM_UP), (moment - pl.col("arrival")).alias(_BEFORE)),
        kept.with_columns(pl.lit(value=False).alias(WARM_UP), pl.lit(0.0).alias(_BEFORE)),
    ]
    return pl.concat(marked)


def with_starts(frame: pl.DataFrame, idle_cap_s: float | None) -> pl.DataFrame:
    """Return requests so timed that none arrives before the warm-up is over, but those that warm up.

    Those arrive as long before the end of the warm-up as they did before their starting point, and at most
    `idle_cap_s`. Without a warm-up all may arrive at 0.
    """
    if _BEFORE not in frame.columns:
        return frame.with_columns(arrival=pl.lit(0.0))
    before = pl.col(_BEFORE) if idle_cap_s is None else pl.col(_BEFORE).clip(upper_bound=idle_cap_s)
    timed = frame.with_columns(arrival=before.max() - before)
    if {"think_time", "parents"} & set(frame.columns):
        timed = timed.with_columns(not_before=pl.col("arrival"))
    return timed.drop(_BEFORE).sort("arrival", maintain_order=True)
