"""When the reference's clients send requests, by hand; each answer takes ten ticks."""

from __future__ import annotations

from typing import Any

from paceline.testing.reference.policy_sim import TraceRequest
from paceline.testing.reference.policy_sim.clients import Clients

TICKS = 10


def sent(
    requests: list[TraceRequest], limit: dict[str, Any] | None = None, rejected: tuple[int, ...] = ()
) -> list[int | None]:
    """Return when each request is sent; None: never. Those that are ``rejected`` end as they arrive."""
    clients, found = Clients(requests, limit), dict[int, int]()
    ends: list[tuple[int, int]] = []
    while clients.waiting or ends:
        coming = clients.next()
        end = min(ends, default=None)
        # At one moment answers come first, and then requests are sent.
        if end is not None and (coming is None or end[0] <= coming):
            ends.remove(end)
            clients.end(end[1], end[0], answered=True)
            continue
        assert coming is not None, "requests wait for nothing"
        row = clients.send()
        found[row] = coming
        if row in rejected:
            clients.end(row, coming, answered=False)
        else:
            ends.append((coming + TICKS, row))
    return [found.get(row) for row in range(len(requests))]


def alone(at: int, **waits: Any) -> TraceRequest:
    return TraceRequest(at, 8, 2, **waits)


def limit(most: int, gap: int = 0, *, by_session: bool = False) -> dict[str, Any]:
    return {"most": most, "gap": gap, "by_session": by_session}


def test_a_turn_follows_the_answer_before_it_and_one_that_does_not_think_its_arrival() -> None:
    turns = [alone(0, session=0), alone(1, session=0, think=5), alone(2, session=0), alone(3)]
    assert sent(turns) == [0, 15, 2, 3]


def test_a_join_follows_the_last_of_its_parents_and_not_before_its_earliest_moment() -> None:
    rows = [alone(0), alone(7), alone(7, parents=(0, 1), delay=4), alone(7, parents=(0,), not_before=30)]
    assert sent(rows) == [0, 7, 21, 30]


def test_what_waits_for_a_rejected_request_is_never_sent() -> None:
    rows = [alone(0), alone(0), alone(0, parents=(0, 1)), alone(0, parents=(2,)), alone(0, parents=(1,))]
    assert sent(rows, rejected=(0,)) == [0, 0, None, None, 10]


def test_a_slot_is_taken_again_a_gap_after_an_end_by_what_was_ready_first() -> None:
    # The turn is ready at 10, before row 2 at 11: both wait for the slot that is free at 13, and then at 26.
    rows = [alone(0, session=0), alone(0, session=0, think=0), alone(11)]
    assert sent(rows, limit(1, gap=3)) == [0, 13, 26]
    assert sent(rows, limit(2, gap=3)) == [0, 10, 13]


def test_a_session_keeps_its_slot_while_it_thinks_and_gives_it_back_as_a_turn_is_rejected() -> None:
    rows = [alone(0, session=0), alone(1, session=1), alone(2, session=0, think=20)]
    assert sent(rows, limit(1, by_session=True)) == [0, 40, 30]
    assert sent(rows, limit(1, gap=2, by_session=True), rejected=(0,)) == [0, 2, None]


def test_requests_that_a_join_connects_are_one_session() -> None:
    # Row 3 joins rows 1 and 2: these need one slot, which the session of row 0 has until 10.
    rows = [alone(0), alone(0), alone(4), alone(4, parents=(1, 2))]
    assert sent(rows, limit(1, by_session=True)) == [0, 10, 10, 20]
