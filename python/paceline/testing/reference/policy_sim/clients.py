"""Clients: when each request is sent, if some wait for the answers to others, or if few may be in flight.

A request is ready at its arrival in the trace; or, if it waits for the answer to the turn before it or to its
parents, its think time or its delay after these, and not before its earliest moment. A request that waits for
an answer which does not come (that request is rejected, or gives up, or is never sent itself) is never sent.

Where clients are limited, each request takes a slot, and gives it back a gap after its end; or each
session does, from its first request to the end of its last. Requests that wait for each other are of one
session, too. Ready requests that need a slot get one in the order in which they became ready; rows that
are ready at one moment in their order. A request of a session that has a slot needs none; of requests that
are sent at the same moment, these are the first.

All is worked out anew from the moments so far after each request that is sent or ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.testing.reference.policy_sim.request import TraceRequest

__all__ = ["Clients", "Limit"]


@dataclass(frozen=True, slots=True)
class Limit:
    """What is in flight at most.

    Attributes
    ----------
    most : int
        Requests, or sessions.
    gap : int
        Ticks from the end of one to the start of the next in its slot.
    by_session : bool
        Whether sessions are counted.
    """

    most: int
    gap: int = 0
    by_session: bool = False


class Clients:
    """The clients that send the requests of a trace.

    Parameters
    ----------
    requests : sequence of TraceRequest
        Sorted by arrival.
    limit : dict or None
        The fields of a `Limit`, as the engine reads them; None: there is none.

    Examples
    --------
    Two turns of one session, the second 5 ticks after the answer to the first, which comes at 10:

    >>> turns = [TraceRequest(0, 8, 2, session=0), TraceRequest(1, 8, 2, session=0, think=5)]
    >>> clients = Clients(turns)
    >>> clients.next(), clients.send(), clients.next()
    (0, 0, None)
    >>> clients.end(0, 10, answered=True)
    >>> clients.next(), clients.send()
    (15, 1)
    """

    def __init__(self, requests: Sequence[TraceRequest], limit: dict[str, Any] | None = None) -> None:
        self._requests = requests
        given = {name: part for name, part in (limit or {}).items() if name != "patience"}
        self._limit = Limit(**given) if given.get("most") is not None else None
        self._before = _turns_before(requests)
        self._waits_for = [list(self._answers_before(row)) for row in range(len(requests))]
        self._slot_of = list(range(len(requests)))
        if self._limit is not None and self._limit.by_session:
            self._slot_of = self._sessions()
        self._unsent = list(range(len(requests)))
        self._sent: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        # When each slot that was taken was left.
        self._left: list[int] = []
        self._found = self._first()

    @property
    def waiting(self) -> bool:
        """Whether there are requests that have not been sent and may still be."""
        return bool(self._unsent)

    def next(self) -> int | None:
        """Return when the next request is sent; None if none is before another has ended."""
        return None if self._found is None else self._found[0]

    def send(self) -> int:
        """Send the next request; return its row."""
        assert self._found is not None, "a request is sent only if one is ready"
        now, _, _, row = self._found
        self._unsent.remove(row)
        self._sent[row] = now
        self._found = self._first()
        return row

    def end(self, row: int, now: int, *, answered: bool) -> None:
        """Note that a request has ended, with an answer or without one."""
        self._ended[row] = now
        gone = [row]
        if not answered:
            gone += self._never(row)
        self._unsent = [one for one in self._unsent if one not in gone]
        if not self._is_taken(self._slot_of[row]):
            self._left.append(now)
        self._found = self._first()

    # -- their parts ----------------------------------------------------------------------

    def _first(self) -> tuple[int, bool, int, int] | None:
        """Return what is sent next: its moment, whether it needs a slot, when it was ready, and its row."""
        free, taken = self._free_from(), self._taken_at()
        found = []
        for row in self._unsent:
            ready = self._ready_at(row)
            if ready is None:
                continue
            if self._slot_of[row] in taken:
                found.append((max(ready, taken[self._slot_of[row]]), False, ready, row))
            elif free is not None:
                found.append((max(ready, free), True, ready, row))
        return min(found, default=None)

    def _answers_before(self, row: int) -> Iterator[tuple[int, int]]:
        """Go over the requests for whose answers a request waits, with the ticks after each."""
        spec, before = self._requests[row], self._before[row]
        if spec.think is not None and before is not None:
            yield before, spec.think
        for parent in spec.parents:
            yield parent, spec.delay

    def _ready_at(self, row: int) -> int | None:
        """Return when a request is ready; None if that is not known yet."""
        waits = self._waits_for[row]
        if not waits:
            return self._requests[row].arrival
        if any(one not in self._ended for one, _ in waits):
            return None
        return max(self._requests[row].not_before, *(self._ended[one] + after for one, after in waits))

    def _never(self, row: int) -> list[int]:
        """Return the rows that wait for the answer to a row, and those that wait for theirs."""
        found: list[int] = []
        for one in self._unsent:
            if any(before == row or before in found for before, _ in self._waits_for[one]):
                found.append(one)
        return found

    def _free_from(self) -> int | None:
        """Return from when on a slot is free; None if all are taken until a request ends."""
        if self._limit is None:
            return 0
        left = self._limit.most - sum(map(self._is_taken, self._taken_at()))
        if left <= 0:
            return None
        # Of the slots that were left, all but so many must be free again.
        again = sorted((moment + self._limit.gap for moment in self._left), reverse=True)
        return again[left - 1] if left <= len(again) else 0

    def _taken_at(self) -> dict[int, int]:
        """Return when the slot of each request, or session, was taken."""
        taken: dict[int, int] = {}
        for row, at in self._sent.items():
            taken.setdefault(self._slot_of[row], at)
        return taken

    def _is_taken(self, slot: int) -> bool:
        """Whether a request of a slot is in flight, or is to come."""
        left = [*self._unsent, *(row for row in self._sent if row not in self._ended)]
        return any(self._slot_of[row] == slot for row in left)

    def _sessions(self) -> list[int]:
        """Return the session of each request, named by its first row."""
        found = list(range(len(self._requests)))
        for row, before in enumerate(self._before):
            others = [one for one, _ in self._waits_for[row]] + ([] if before is None else [before])
            for other in others:
                one, two = sorted((found[row], found[other]))
                found = [one if name == two else name for name in found]
        return found


def _turns_before(requests: Sequence[TraceRequest]) -> list[int | None]:
    """Return the row before each in its session."""
    latest: dict[int, int] = {}
    found: list[int | None] = []
    for row, request in enumerate(requests):
        found.append(None if request.session is None else latest.get(request.session))
        if request.session is not None:
            latest[request.session] = row
    return found
