"""The turns of sessions in Mooncake's rows: when each arrives, and how long after which answer."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from paceline.errors import TraceError
from paceline.trace.formats.mooncake_rows import MooncakeRows

__all__ = ["Turns", "follow"]


@dataclass(frozen=True, slots=True)
class Turns:
    """When requests arrive, in the file's order.

    Attributes
    ----------
    arrival
        The stamps. Where there is none, the earliest moment possible: that of the turn before, and its
        delay; 0 for the first turn of a session.
    think_time
        Seconds from the answer to the turn before; null for a first turn and for rows without a session.
    """

    arrival: pl.Series
    think_time: pl.Series


def follow(table: MooncakeRows) -> Turns:
    """Pair the turns of each session in the file's order.

    Raises
    ------
    TraceError
        The first row of a session has a delay; or some first rows have stamps and others have none; or the
        stamps of a session go back.
    """
    stamps: list[float | None] = table.at.to_list()
    arrival: list[float] = []
    thought: list[float | None] = []
    last: dict[str, int] = {}
    begins_stamped: bool | None = None
    for row, (at, session, delay) in enumerate(zip(stamps, table.session, table.delay, strict=True)):
        before = None if session is None else last.get(session)
        if before is None:
            if delay:
                raise _refusal(table, row, f"delay must not be on a first turn, was {delay:g} s")
            if begins_stamped not in (None, at is not None):
                raise _refusal(table, row, "timestamp must be in the first row of every session, or of none")
            begins_stamped = at is not None
            arrival.append(at or 0.0)
            thought.append(None)
        else:
            wait = _wait(table, row, before, stamps)
            arrival.append(arrival[before] + wait if at is None else at)
            thought.append(wait)
        if session is not None and (session not in last or table.output[row] != 0):
            last[session] = row  # a turn without an answer is followed by none
    return Turns(
        pl.Series("arrival", arrival, dtype=pl.Float64),
        pl.Series("think_time", thought, dtype=pl.Float64),
    )


def _wait(table: MooncakeRows, row: int, before: int, stamps: list[float | None]) -> float:
    """Return the seconds from the answer to the turn before to this one."""
    delay, at, earlier = table.delay[row], stamps[row], stamps[before]
    if at is not None and earlier is not None and at < earlier:
        raise _refusal(
            table, row, f"timestamp must not be before that of the turn before, {earlier:g} s, was {at:g} s"
        )
    if delay is not None:
        return delay
    if at is None:
        return 0.0
    if earlier is None:
        raise _refusal(table, row, "timestamp follows a turn without one; give its delay instead")
    return at - earlier


def _refusal(table: MooncakeRows, row: int, rule: str) -> TraceError:
    return TraceError(f"{table.rows.locate(row)}: {rule}")
