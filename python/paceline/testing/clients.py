"""The invariants of clients that wait for answers, each as a generator of its violations.

Numbers and statements are those of `docs/invariants.md`. A result does not say when a request was ready that
waits for no answer. So that nothing waits beside a free slot is checked of the others.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from paceline.concurrency import Concurrency
from paceline.patience import Patience
from paceline.testing.rows import Floats, Rows
from paceline.testing.violation import BrokenInvariant
from paceline.testing.waits import Waits

__all__ = ["CHECKS"]

Broken = Iterator[BrokenInvariant]
Ints = NDArray[np.int64]


def answers(rows: Rows) -> Broken:
    """INV-16: answers come before what waits for them."""
    waits = Waits.of(rows.frame)
    ready, sent = _ready_s(rows, waits), _first_sent_s(rows)
    waiting = np.zeros(len(sent), dtype=np.bool_)
    waiting[waits.child] = True
    lost = waiting & ~np.isnan(sent) & np.isnan(ready)
    early = waiting & (sent < ready - rows.slack_s)
    late = waiting & (sent > ready + rows.slack_s) & (getattr(_limit(rows), "most", None) is None)
    for broken, statement in (
        (lost, "never sent where an answer does not come"),
        (early, "sent after the answers for which it waits"),
        (late, "sent as soon as it is ready where what is in flight is not limited"),
    ):
        for row in np.flatnonzero(broken).tolist():
            found = f"sent at {float(sent[row])!r} s, ready at {float(ready[row])!r} s"
            yield BrokenInvariant(16, statement, found, request=row, time_s=float(sent[row]))


def limits(rows: Rows) -> Broken:
    """INV-17: a limit of what is in flight is kept, and no request waits beside a free slot."""
    limit = _limit(rows)
    if limit is None or limit.most is None:
        return
    waits = Waits.of(rows.frame)
    units = waits.sessions(rows.frame) if limit.of == "sessions" else np.arange(rows.frame.height)
    held = _Slots.of(rows, units, limit, certain=True)
    taken = held.taken(held.begin, rows.slack_s)
    for slot in np.flatnonzero(taken > limit.most).tolist():
        found = f"{int(taken[slot])} of {limit.of}"
        time = float(held.begin[slot])
        yield BrokenInvariant(17, f"at most {limit.most} in flight", found, time_s=time)
    yield from _idle(rows, waits, units, limit)


def _idle(rows: Rows, waits: Waits, units: Ints, limit: Concurrency) -> Broken:
    """Yield the requests that waited for a slot while one was free, or whose session had one."""
    ready, sent = _ready_s(rows, waits), _first_sent_s(rows)
    most = _Slots.of(rows, units, limit, certain=False)
    opened = np.full(len(sent), np.inf)
    np.fmin.at(opened, units, sent)
    own = sent <= opened[units]
    late = np.isin(np.arange(len(sent)), waits.child) & (sent > ready + rows.slack_s)
    free_from, free_to = most.free(limit.most or 0, rows.slack_s)
    for row in np.flatnonzero(late).tolist():
        if not own[row]:
            statement = "a request of a session in flight waits for no slot"
        else:
            # The first time with a free slot that ends after the request was ready.
            at = int(np.searchsorted(free_to, ready[row] + rows.slack_s, side="right"))
            if at == len(free_to) or free_from[at] >= sent[row] - rows.slack_s:
                continue
            statement = "no request waits while a slot is free"
        found = f"ready at {float(ready[row])!r} s, sent at {float(sent[row])!r} s"
        yield BrokenInvariant(17, statement, found, request=row, time_s=float(sent[row]))


@dataclass(frozen=True, slots=True)
class _Slots:
    """From when to when each slot was taken, the gap after it included; in seconds.

    When requests ended that were rejected or gave up is not in a result. If the times are to be ``certain``,
    they end as they begin; else never.
    """

    begin: Floats
    end: Floats

    @classmethod
    def of(cls, rows: Rows, units: Ints, limit: Concurrency, *, certain: bool) -> _Slots:
        # A request that is sent again keeps its slot.
        sent, end = _first_sent_s(rows), rows.seconds("finish")
        end = np.where(rows.status("cancelled"), rows.seconds("cancelled_at"), end)
        unknown = rows.status("rejected", "gave_up")
        end = np.where(unknown, sent if certain else np.inf, np.where(np.isnan(end), np.inf, end))
        # What has not been sent by the end may still be, or never is.
        end = np.where(np.isnan(sent), -np.inf if certain else np.inf, end)
        found = pl.DataFrame({"unit": units, "begin": sent, "end": end}).with_columns(
            pl.col("begin").fill_nan(None)
        )
        spans = found.group_by("unit").agg(pl.col("begin").min(), pl.col("end").max()).drop_nulls()
        begin, last = (spans.get_column(name).to_numpy() for name in ("begin", "end"))
        return cls(np.sort(begin), np.sort(last + limit.gap_s))

    def taken(self, at: Floats, slack_s: float) -> Ints:
        """Return how many are taken at some moments, those that are taken then included."""
        begun = np.searchsorted(self.begin, at, side="right")
        return begun - np.searchsorted(self.end, at + slack_s, side="right")

    def free(self, most: int, slack_s: float) -> tuple[Floats, Floats]:
        """Return the times, in order, in which fewer than ``most`` are taken: their starts and their ends."""
        moments = np.unique(np.concatenate((self.begin, self.end[np.isfinite(self.end)])))
        start, stop = np.append(-np.inf, moments), np.append(moments, np.inf)
        begun = np.searchsorted(self.begin, start, side="right")
        free = (begun - np.searchsorted(self.end, start, side="right") < most) & (stop - start > slack_s)
        return start[free], stop[free]


def _sent_s(rows: Rows) -> Floats:
    """Return when each request was sent; nan where it was not."""
    return np.where(rows.status("not_arrived"), np.nan, rows.seconds("arrival"))


def _first_sent_s(rows: Rows) -> Floats:
    """Return when each request was sent for the first time; nan where it was not."""
    sent, first = _sent_s(rows), rows.seconds("first_sent")
    return np.where(np.isnan(first), sent, first)


def _ready_s(rows: Rows, waits: Waits) -> Floats:
    """Return when each request that waits for answers was ready; nan where an answer did not come."""
    answered = np.where(rows.status("finished"), rows.seconds("finish"), np.nan)
    ready = np.full(rows.frame.height, -np.inf)
    if "not_before" in rows.frame.columns:
        ready = np.nan_to_num(rows.seconds("not_before"), nan=-np.inf)
    with np.errstate(invalid="ignore"):
        np.maximum.at(ready, waits.child, answered[waits.parent] + waits.after_s)
    return ready


def _limit(rows: Rows) -> Concurrency | None:
    """Return the limit of what is in flight, which a result keeps as text."""
    text = rows.setting("clients")
    if text is None:
        return None
    call = ast.parse(text, mode="eval").body
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Concurrency"):
        return None
    given: dict[str, Any] = {}
    for part in call.keywords:
        if isinstance(part.value, ast.Call):
            own = {str(one.arg): ast.literal_eval(one.value) for one in part.value.keywords}
            given[str(part.arg)] = Patience(**own)
        else:
            given[str(part.arg)] = ast.literal_eval(part.value)
    return Concurrency(**given)


CHECKS: tuple[Callable[[Rows], Broken], ...] = (answers, limits)
"""The checks, by the numbers of their invariants."""
