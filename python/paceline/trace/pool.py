"""Sessions drawn from a pool, so many in flight, the first in their middle."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from paceline import _check
from paceline._arguments import typed
from paceline._check import said
from paceline.concurrency import Concurrency
from paceline.errors import TraceError
from paceline.trace.model import Trace
from paceline.trace.parents import parent_rows, without_lost
from paceline.trace.starting import started_at, with_starts

__all__ = ["pooled"]

_CUT: Final = "before the starting point of their session"

_AGAIN: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
"""What is added to ids of blocks each time that the pool is gone through again."""

Rows = npt.NDArray[np.int64]


@typed(TraceError)
def pooled(
    trace: Trace,
    *,
    sessions: int,
    in_flight: int,
    seed: int = 0,
    start: tuple[float, float] = (0.0, 1.0),
    idle_cap_s: float | None = 10.0,
    warm_up: bool = False,
    gap_s: float = 0.0,
) -> Trace:
    """Return sessions drawn from those of a trace, to be replayed with so many in flight.

    The pool is gone through in a drawn order, and again in another one if it is used up. The first sessions,
    as many as are in flight, begin somewhere in their middle, as if the benchmark had run before; those that
    take their places begin at their start. The trace has its clients (`Trace.by`): a session starts when
    another has ended.

    Parameters
    ----------
    trace
        The pool. Requests that wait for each other (turns of a session with ``think_time``, ``parents``) are
        one session; a request that waits for none, and has no session, is one by itself.
    sessions
        How many are drawn.
    in_flight
        How many are in flight, and begin in their middle.
    seed
        Of the draws.
    start
        Between which shares of its span in time a first session begins; of its requests, if all have
        one arrival. Requests before are counted in `Trace.dropped`; at least the last one stays.
    idle_cap_s
        The most seconds of a think time or delay; None: as they are.
    warm_up
        Whether the request before the starting point of each first session, and of each of its subagents that
        goes on, is sent before, as long before the start of the measurement as in the trace and at most
        `idle_cap_s`: it brings the contents of the session into the prefix caches. The column ``warm_up``
        says which requests these are, so that ``result.summary(by="warm_up")`` tells them from the others.
    gap_s
        As of `paceline.Concurrency`.

    Raises
    ------
    TraceError
        If no request of the trace has a session or parents, or an argument is out of its range.

    Examples
    --------
    >>> chats = Trace.from_columns(
    ...     arrival=[0, 10, 20, 30], prompt_tokens=[10, 30, 50, 70], output_tokens=[10] * 4,
    ...     session=["a"] * 4, think_time=[None, 60.0, 2.0, 3.0],
    ... )
    >>> drawn = pooled(chats, sessions=3, in_flight=1, seed=1)
    >>> drawn.clients, drawn.frame["think_time"].max(), len(drawn) + sum(drawn.dropped.values())
    (Concurrency(most=1, gap_s=0.0, of='sessions'), 10.0, 12)

    Notes
    -----
    Source: the replay of AgentX's traces, whose defaults are a cap of 10 s on idle gaps and starting points
    uniform over the span of a session (25 to 75% for others), and its warm-up: the turn before the starting
    point, so timed that all sessions reach theirs at one moment (aiperf,
    docs/benchmark-modes/semianalysis-agentx-faq.md at 01a4d17). The ten requests of one token that InferenceX
    sends in each session after that are not there. What clients do at the end (grace, drain) is not modelled:
    all that was drawn is replayed to its end. A session that is drawn again has other contents than before:
    its prompts share nothing with the first time. ``not_before`` of the trace is dropped, as sessions start
    at other moments than they did.
    """
    low, high = start
    _check.count("sessions of pooled()", sessions)
    _check.count("in_flight of pooled()", in_flight)
    if not 0 <= low <= high <= 1:
        raise TraceError(f"start of pooled() must be two shares from 0 to 1 in order, was {start}")
    if idle_cap_s is not None and not (_check.is_number(idle_cap_s) and idle_cap_s >= 0):
        raise TraceError(f"idle_cap_s of pooled() must be 0 or more seconds, was {said(idle_cap_s)}")
    plays = _plays(trace)
    rng = np.random.default_rng([813, 648, seed])
    parts: list[pl.DataFrame] = []
    cut = 0
    order: list[int] = []
    pool = trace.frame.drop("not_before", strict=False)
    for number in range(sessions):
        if number % len(plays) == 0:
            order = rng.permutation(len(plays)).tolist()
        play = pool[plays[order[number % len(plays)]]]
        if number < in_flight:
            started = started_at(play, float(rng.uniform(low, high)), warm_up=warm_up)
            cut += play.height - started.height
        else:
            started = started_at(play, 0.0, warm_up=warm_up)
        parts.append(_renamed(started, number, number // len(plays)))
    frame = with_starts(pl.concat(parts), idle_cap_s)
    frame, _ = without_lost(frame) if "parents" in frame.columns else (frame, 0)
    if idle_cap_s is not None:
        waits = [name for name in ("think_time", "delay") if name in frame.columns]
        frame = frame.with_columns(pl.col(*waits).clip(upper_bound=idle_cap_s)) if waits else frame
    drawn = trace.with_frame(
        frame,
        name=f"{sessions} sessions of {trace.name}",
        dropped={**trace.dropped, **({_CUT: cut} if cut else {})},
    )
    return drawn.by(Concurrency(in_flight, gap_s=gap_s, of="sessions"))


def _plays(trace: Trace) -> list[Rows]:
    """Return the rows of each session, in order of the first."""
    frame = trace.frame
    first = list(range(frame.height))

    def root(row: int) -> int:
        while first[row] != row:
            first[row] = first[first[row]]
            row = first[row]
        return row

    if not {"session", "parents"} & set(frame.columns):
        raise TraceError(
            f"pooled() needs a trace with the column session or parents; {trace.name} has neither"
        )
    if "session" in frame.columns:
        known: dict[str, int] = {}
        for row, session in enumerate(frame.get_column("session").to_list()):
            if session is not None:
                first[row] = known.setdefault(session, row)
    if "parents" in frame.columns:
        ends, parents = parent_rows(frame)
        child = np.repeat(np.arange(frame.height), np.diff(ends, prepend=0).astype(np.int64))
        for row, parent in zip(child.tolist(), parents.tolist(), strict=True):
            one, other = sorted((root(row), root(parent)))
            first[other] = one
    of = np.array([root(row) for row in range(frame.height)])
    order = np.argsort(of, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(of[order])) + 1)


def _renamed(rows: pl.DataFrame, number: int, again: int) -> pl.DataFrame:
    """Return the rows of a session under names of its own, the first without a wait."""
    mark = f"#{number}"
    changed: list[pl.Expr] = []
    for name in ("session", "request_id"):
        if name in rows.columns:
            changed.append(pl.col(name) + mark)
    if "parents" in rows.columns:
        changed.append(pl.col("parents").list.eval(pl.element() + mark))
    if "think_time" in rows.columns:
        turn = pl.col("session").cum_count().over("session") == 1
        changed.append(pl.when(turn).then(None).otherwise(pl.col("think_time")).alias("think_time"))
    if "prefix" in rows.columns and again:
        changed.append(_contents(rows.get_column("prefix"), again))
    return rows.with_columns(changed)


def _contents(prefix: pl.Series, again: int) -> pl.Expr:
    """Return ids of blocks that are others than those before."""
    lists = prefix.to_list()
    shift = int(_AGAIN) * again
    moved = [None if ids is None else [(one + shift) % 2**64 for one in ids] for ids in lists]
    return pl.lit(pl.Series("prefix", moved, dtype=prefix.dtype))
