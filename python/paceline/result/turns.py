"""Turns of sessions that arrive before the answer before them has ended."""

from __future__ import annotations

import warnings

import polars as pl

from paceline.errors import SessionWarning
from paceline.result.columns import RequestColumns

__all__ = ["early_turns", "warn_of_early_turns"]

_LOST = ("rejected", "gave_up", "cancelled")
"""Statuses of requests that have no answer to wait for."""


def early_turns(columns: RequestColumns) -> int | None:
    """Count the turns that arrive before the answer to the turn before them has ended.

    The turn before is the row before in the same session. A turn after one that was
    rejected, cancelled or gave up waits for no answer; one after a turn that is unfinished does.

    Returns
    -------
    int or None
        None if the trace has no column ``session``.
    """
    if "session" not in columns.names:
        return None
    turns = pl.DataFrame({name: columns[name] for name in ("session", "arrival", "finish", "status")})
    before = pl.col("finish", "status").shift().over("session").name.prefix("before_")
    ended = pl.col("before_finish") <= pl.col("arrival")
    early = (
        pl.col("before_status").is_not_null()
        & ~pl.col("before_status").cast(pl.String()).is_in(_LOST)
        & (pl.col("status").cast(pl.String()) != "not_arrived")
        & ~ended.fill_null(False)
    )
    found = turns.filter(pl.col("session").is_not_null()).with_columns(before).select(early.sum())
    return int(found.item())


def warn_of_early_turns(early: int | None) -> None:
    """Warn if there are any; the text is one for all replays, so that Python shows it once."""
    if early:
        warnings.warn(
            "some turns of sessions arrive before the answer before them has ended, which their prompts "
            "continue; totals().early_turns of the result counts them. Give such turns later arrivals, or "
            "raise the load by more sessions rather than by a scale",
            SessionWarning,
            stacklevel=4,
        )
