"""The pools of instances over time, and their changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

import polars as pl

from paceline._clock import TICKS_PER_SECOND
from paceline.result.flip import Flip

__all__ = ["flips_frame", "roles_frame", "seconds_by_role", "spans_in"]


class Flipped(Protocol):
    """What counters of a replay say about pools: see `ReplayStats`."""

    @property
    def end_ticks(self) -> int:
        """The clock when the replay stopped."""

    @property
    def roles(self) -> tuple[str, ...]:
        """The pool of each instance at the start."""

    @property
    def flips(self) -> tuple[Flip, ...]:
        """The changes of pools, in order."""


def flips_frame(stats: Flipped) -> pl.DataFrame:
    """Return a row per change of a pool."""
    rows = [
        (flip.ticks / TICKS_PER_SECOND, flip.instance, flip.before, flip.after, flip.cause, flip.request)
        for flip in stats.flips
    ]
    schema = {
        "time_s": pl.Float64(),
        "instance": pl.UInt32(),
        "from": pl.String(),
        "to": pl.String(),
        "cause": pl.String(),
        "request": pl.UInt32(),
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def roles_frame(stats: Flipped) -> pl.DataFrame:
    """Return a row per time of an instance in a pool, by instance and in order."""
    rows = [
        (instance, role, start / TICKS_PER_SECOND, end / TICKS_PER_SECOND)
        for instance, role, start, end in sorted(_spans(stats), key=lambda span: (span[0], span[2]))
    ]
    schema = {"instance": pl.UInt32(), "role": pl.String(), "from_s": pl.Float64(), "to_s": pl.Float64()}
    return pl.DataFrame(rows, schema=schema, orient="row")


def seconds_by_role(stats: Flipped) -> dict[str, float]:
    """Return the seconds that instances spent in each pool, in all; empty without pools."""
    ticks = dict.fromkeys(stats.roles, 0)
    for _, role, start, end in _spans(stats):
        ticks[role] = ticks.get(role, 0) + end - start
    return {role: total / TICKS_PER_SECOND for role, total in ticks.items()}


def spans_in(stats: Flipped, pools: Collection[str]) -> Iterator[tuple[int, str, int, int]]:
    """Yield instance, pool, start and end, in ticks, of each time in one of some pools that has a length."""
    return (span for span in _spans(stats) if span[1] in pools) if pools else iter(())


def _spans(stats: Flipped) -> Iterator[tuple[int, str, int, int]]:
    """Yield instance, pool, start and end of each time in a pool that has a length."""
    present = list(stats.roles)
    since = [0] * len(present)
    for flip in stats.flips:
        if flip.ticks > since[flip.instance]:
            yield flip.instance, present[flip.instance], since[flip.instance], flip.ticks
        present[flip.instance], since[flip.instance] = flip.after, flip.ticks
    for instance, (role, start) in enumerate(zip(present, since, strict=True)):
        if stats.end_ticks > start:
            yield instance, role, start, stats.end_ticks
