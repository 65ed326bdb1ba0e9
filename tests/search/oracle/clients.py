"""INV-16: answers come before what waits for them. INV-17: a limit is kept, and nothing waits in vain.

A closed loop is the open loop of its own arrivals, too: a replay of the requests that were sent, at the
moments at which they were, decides and ends the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from search.case import Case
from search.oracle import progress
from search.oracle.failure import Failure
from search.oracle.replayed import (
    CANCELLED,
    COLUMNS,
    FINISHED,
    GAVE_UP,
    NEVER,
    NOT_ARRIVED,
    REJECTED,
    Replayed,
)

Wire = dict[str, Any]
AT_ARRIVAL = (1, 2)
"""Reasons for which a request is rejected as it arrives, and never later: its length and its blocks."""


WAITS = ("session", "think", "parents", "delay", "not_before")
"""Columns of a request that say for what it waits."""


def has(case: Case) -> bool:
    """Whether the requests of a case may be sent at other moments than those of the trace."""
    return case.config.get("clients") is not None or any(waits_for(case.requests))


def waits_for(rows: Sequence[Wire]) -> list[list[tuple[int, int]]]:
    """Return the requests for whose answers each request waits, and the ticks after each."""
    latest: dict[int, int] = {}
    found: list[list[tuple[int, int]]] = []
    for row, request in enumerate(rows):
        session, think = request.get("session"), request.get("think")
        waits = [(latest[session], think)] if think is not None and session in latest else []
        found.append(waits + [(parent, request["delay"]) for parent in request.get("parents", ())])
        if session is not None:
            latest[session] = row
    return found


def broken(replayed: Replayed) -> Iterator[Failure]:
    """Yield what a replay breaks of the order of answers, and of the limit of what is in flight."""
    if not has(replayed.case):
        return
    ready = readiness(replayed)
    for row, (at, sent) in enumerate(zip(ready, replayed.first_sent, strict=True)):
        came = replayed.column("status")[row] != NOT_ARRIVED
        if came and (at is None or sent < at):
            yield Failure("INV-16: sent after the answers", f"row {row}: sent {sent}, ready {at}")
            return
    yield from _limit(replayed, ready)


def readiness(replayed: Replayed) -> list[int | None]:
    """Return when each request was ready to be sent; None if that is not known by the end."""
    status, finish = replayed.column("status"), replayed.column("finish")
    found: list[int | None] = []
    for request, before in zip(replayed.case.requests, waits_for(replayed.case.requests), strict=True):
        if any(status[row] != FINISHED for row, _ in before):
            found.append(None)
        elif before:
            found.append(max(request.get("not_before", 0), *(finish[row] + after for row, after in before)))
        else:
            found.append(request["arrival"])
    return found


def _limit(replayed: Replayed, ready: list[int | None]) -> Iterator[Failure]:
    """Yield moments with too many in flight, and requests that waited while a slot was free."""
    limit = replayed.case.config.get("clients")
    status, sent = replayed.column("status"), replayed.first_sent
    came = [row for row, one in enumerate(status) if one != NOT_ARRIVED]
    if limit is None or limit["most"] is None:
        for row in came:
            if sent[row] != ready[row]:
                yield Failure("INV-17: sent as soon as ready", f"row {row}: {sent[row]}, ready {ready[row]}")
                return
        return
    units = units_of(replayed.case.requests, by_session=limit["by_session"])
    spans = slots(replayed, units)
    if spans is None:
        return
    for start, _ in spans.values():
        # A slot is taken again a gap after its last request has ended, and not before.
        held = sum(begin <= start < end + limit["gap"] for begin, end in spans.values())
        if held > limit["most"]:
            yield Failure("INV-17: at most so many in flight", f"{held} of {limit['most']} at {start}")
            return
    for row in came:
        at, wanted = sent[row], ready[row]
        if wanted is None or at == wanted:
            continue
        begin, _ = spans[units[row]]
        if begin != at:
            if at == max(begin, wanted):
                continue
            yield Failure(
                "INV-17: a turn of a session in flight waits for no slot", f"row {row}: {at}, {wanted}"
            )
            return
        # Each moment between, all slots were taken. These change only when one is given back.
        moments = {wanted, *(end + limit["gap"] for _, end in spans.values())}
        for moment in sorted(one for one in moments if wanted <= one < at):
            held = sum(one <= moment < end + limit["gap"] for one, end in spans.values())
            if held < limit["most"]:
                yield Failure(
                    "INV-17: nothing waits beside a free slot", f"row {row}: {held} taken at {moment}"
                )
                return


def units_of(rows: Sequence[Wire], *, by_session: bool) -> list[int]:
    """Return what takes a slot for each request, by its first row: itself, or its session.

    Requests that wait for each other are of one session.
    """
    units = list(range(len(rows)))
    if not by_session:
        return units
    latest: dict[int, int] = {}
    for row, (request, waits) in enumerate(zip(rows, waits_for(rows), strict=True)):
        session = request.get("session")
        others = [one for one, _ in waits] + ([latest[session]] if session in latest else [])
        for other in others:
            first, second = sorted((units[row], units[other]))
            units = [first if one == second else one for one in units]
        if session is not None:
            latest[session] = row
    return units


def slots(replayed: Replayed, units: list[int]) -> dict[int, tuple[int, int]] | None:
    """Return from when to when each session or request had a slot: to `NEVER` where it has one at the end.

    None if the columns do not say: a request that was held, or dropped after a preemption, ended in between.
    """
    status, sent = replayed.column("status"), replayed.first_sent
    cancelled = replayed.column("cancelled_at")
    finish, reason = replayed.column("finish"), replayed.column("reason")
    found: dict[int, tuple[int, int]] = {}
    never = _never_sent(replayed)
    for row, one in enumerate(status):
        unit = units[row]
        if one == NOT_ARRIVED and row in never:
            continue
        if one == GAVE_UP or (one == REJECTED and reason[row] not in AT_ARRIVAL):
            return None
        if one == CANCELLED and replayed.case.config["until"] is not None and _patience(replayed.case):
            return None  # it may be sent again later
        begin = NEVER if one == NOT_ARRIVED else sent[row]
        end = finish[row] if one == FINISHED else begin if one == REJECTED else NEVER
        if one == CANCELLED:
            end = cancelled[row]
        first, last = found.get(unit, (NEVER, 0))
        found[unit] = (min(begin, first), max(end, last))
    return {unit: span for unit, span in found.items() if span[0] != NEVER}


def _never_sent(replayed: Replayed) -> set[int]:
    """Return the requests that wait for an answer which does not come."""
    status, never = replayed.column("status"), set[int]()
    for row, before in enumerate(waits_for(replayed.case.requests)):
        if any(one in never or status[one] in (REJECTED, GAVE_UP, CANCELLED) for one, _ in before):
            never.add(row)
    return never


def reopened(replayed: Replayed) -> Iterator[Failure]:
    """Replay the requests that were sent, at their moments; yield what is decided or ends otherwise."""
    case = replayed.case
    rows = order_of_arrival(replayed)
    if not rows:
        return
    requests = [
        {name: value for name, value in case.requests[row].items() if name not in WAITS}
        | {"arrival": replayed.sent[row]}
        for row in rows
    ]
    opened = replace(case, requests=requests, config={**case.config, "clients": None})
    again, stop = progress.replayed(opened, leap=replayed.leap, record=True)
    if again is None:
        # Where time ends, requests that would come later keep a replay from standing still.
        assert stop is not None
        if case.config["until"] is None:
            yield Failure("closed loop: its arrivals make no progress", str(stop))
        return
    for name in COLUMNS:
        ours = replayed.outcome.columns[name]
        theirs = again.outcome.columns[name]
        if name != "arrival" and len(ours) and ours[rows].tobytes() != theirs.tobytes():
            shown = f"{name} {ours[rows].tolist()} and {theirs.tolist()}, rows {rows}"
            yield Failure("closed loop: the open loop of its arrivals", shown)
            return
    for index, log in enumerate(again.decisions):
        if _renamed(log, rows) != replayed.decisions[index]:
            yield Failure("closed loop: decides as the open loop of its arrivals", f"instance {index}")
            return


def order_of_arrival(replayed: Replayed) -> list[int]:
    """Return the requests that were sent, in the order of their moments and, at one moment, of readiness.

    A turn of a session in flight waits for no slot, and is before all that do.
    """
    limit = replayed.case.config.get("clients")
    ready, sent, status = readiness(replayed), replayed.sent, replayed.column("status")
    units = units_of(replayed.case.requests, by_session=limit is not None and limit["by_session"])
    left = [row for row, one in enumerate(status) if one != NOT_ARRIVED]
    order: list[int] = []
    opened: set[int] = set()
    while left:
        now = min(sent[row] for row in left)
        here = [row for row in left if sent[row] == now]
        inside = [row for row in here if units[row] in opened]
        row = min(inside or here, key=lambda row: (ready[row], row))
        opened.add(units[row])
        left.remove(row)
        order.append(row)
    return order


def _reads_rows(instance: dict[str, Any]) -> bool:
    speculation = instance.get("speculation")
    if speculation is None:
        return False
    return speculation["proposals"] is not None or speculation["acceptance"]["kind"] != "periodic"


def can_reopen(replayed: Replayed) -> bool:
    """Whether a case's requests can be replayed at the moments at which they were sent.

    Not where the prefix cache or an accumulator reads sessions: a request that overtakes the turn before
    it would be another. Nor where what is accepted of a request's drafts depends on its row, as the rows are
    in another order. Nor where clients lose patience: requests may be sent again. Nor where a request was
    dropped as a step was formed: the next one is sent at that moment, but after the step has started, which
    an arrival of the trace never is.
    """
    case = replayed.case
    if _patience(case) or any(map(_reads_rows, case.config["instances"])):
        return False
    status, scheduled = replayed.column("status"), replayed.column("scheduled")
    if any(one == REJECTED and at != NEVER for one, at in zip(status, scheduled, strict=True)):
        return False
    schedulers = [one["scheduler"] for one in case.config["instances"]]
    accumulators = [one for each in schedulers for one in each["order"].get("accumulators", ())]
    if any(one["by"] == "session" for one in accumulators):
        return False
    cached = any(one["prefix_cache"] for one in schedulers)
    return not cached or case.prefix_block_tokens > 0 or not any("session" in row for row in case.requests)


def _patience(case: Case) -> Any:
    return (case.config.get("clients") or {}).get("patience")


def _renamed(log: list[Wire], rows: list[int]) -> list[Wire]:
    """Return decisions with each request as its row in the closed loop."""
    return [
        {
            **step,
            "scheduled": [[rows[entry[0]], *entry[1:]] for entry in step["scheduled"]],
            "preempted": [rows[row] for row in step["preempted"]],
        }
        for step in log
    ]
