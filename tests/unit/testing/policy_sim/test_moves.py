"""Migrations between instances in the reference: transfers and monitors, worked out by hand.

A step takes a tick, a token of KV has one byte, and links carry a byte a tick unless said otherwise.
"""

from __future__ import annotations

from differential.wire import Wire, cluster, const, field, instance, migrate, op, pick, side, swap
from paceline.testing.reference.policy_sim import Outcome, TraceRequest, replay, split

A_BYTE_A_TICK = 1e12


def at(number: int, name: str = "inst.index") -> Wire:
    return op("eq", field(name), const(number))


TO_0 = pick(field("inst.index"))
TO_1 = pick(field("inst.index"), where=at(1))
BY_PRIORITY = pick(field("inst.index"), where=op("eq", field("inst.index"), field("req.priority")))
FROM_0_TO_1 = (side(where=at(0)), side(where=at(1)), side(field("req.kv_tokens")))


def moved(requests: list[TraceRequest], *, latency: int = 3, until: int | None = None) -> Outcome:
    config = cluster(
        instance(),
        instance(),
        on_arrival=TO_0,
        on_answering=TO_1,
        links=(A_BYTE_A_TICK, latency),
        until=until,
    )
    return replay(config, requests)


def test_a_request_that_moves_takes_its_kv_along() -> None:
    """It reasons until 2, when it has 5 tokens of KV; they take 5 ticks and a latency of 3."""
    outcome = moved([TraceRequest(0, 4, 5, reasoning_tokens=2)])
    (request,) = outcome.requests
    assert request.token_times == [1, 2, 11, 12, 13]
    assert (outcome.instance, request.last) == ([0], 1)
    parts = split(request)
    assert (parts.transfer, parts.blocking, parts.preempted, parts.executed) == (8, 0, 0, 5)
    assert parts.answer_started == 10


def test_transfers_queue_for_the_port() -> None:
    """Three requests migrate at 2 with 5 tokens each: their transfers start at 2, 7 and 12."""
    requests = [TraceRequest(0, 4, 5, reasoning_tokens=2) for _ in range(3)]
    assert [request.token_times[2:] for request in moved(requests).requests] == [
        [11, 12, 13],
        [16, 17, 18],
        [21, 22, 23],
    ]


def test_blocks_stay_taken_at_the_source_until_the_transfer_ends() -> None:
    requests = [TraceRequest(0, 4, 5, reasoning_tokens=2) for _ in range(3)]
    held = [
        moved(requests, until=end).replicas[0].scheduler.memory.pool.held for end in (9, 10, 14, 15, 19, 20)
    ]
    assert held == [15, 10, 10, 5, 5, 0]


def landing_on_a_busy_instance(preemption: Wire | None) -> Outcome:
    """The second arrives by migration at 2, with 5 tokens of KV; the target's one seat is taken until 20."""
    config = cluster(
        instance(),
        instance(seats=1, preemption=preemption),
        on_arrival=BY_PRIORITY,
        on_answering=TO_1,
    )
    requests = [TraceRequest(0, 1, 20, priority=1), TraceRequest(0, 4, 5, priority=0, reasoning_tokens=2)]
    return replay(config, requests)


def test_a_migrated_request_that_is_not_admitted_waits_in_swap_space() -> None:
    """Its 5 blocks are copied in at its admission at 20, at 2 ticks each; they were never copied out."""
    outcome = landing_on_a_busy_instance(swap(100, out=7, back=2))
    assert outcome.requests[1].token_times == [1, 2, 31, 32, 33]
    parts = split(outcome.requests[1])
    assert (parts.blocking, parts.transfer, parts.preempted, parts.executed) == (18, 0, 0, 15)


def test_without_swap_a_migrated_request_is_admitted_at_no_charge() -> None:
    assert landing_on_a_busy_instance(None).requests[1].token_times == [1, 2, 21, 22, 23]


def test_a_migrated_request_is_recomputed_if_the_swap_space_is_full() -> None:
    outcome = landing_on_a_busy_instance(swap(4, out=7, back=2))
    assert outcome.requests[1].token_times == [1, 2, 21, 22, 23]
    assert outcome.replicas[1].scheduler.memory.swap_overflows == 1
    assert outcome.replicas[1].steps[-3][1] == [[1, 6, 0]]


def test_a_monitors_choice_migrates_at_the_end_of_the_step() -> None:
    """Steps end at 2, 4 and 6; the monitor runs at 5. At 6 there are 12 tokens of KV; they arrive at 18."""
    config = cluster(
        instance(step=2),
        instance(step=2),
        on_arrival=TO_0,
        every=[(5, migrate(*FROM_0_TO_1))],
        links=(A_BYTE_A_TICK, 0),
    )
    (request,) = replay(config, [TraceRequest(0, 10, 5)]).requests
    assert request.token_times == [2, 4, 6, 20, 22]


def test_a_live_migration_copies_while_the_request_runs() -> None:
    """Two bytes a tick. KV is 14 tokens at 5, 21 when those are copied at 12, 25 at 16, 27 at 18.

    That was the third stage; the last 2 tokens are copied from 18 to 19, and no token comes at 19.
    """
    live = {"stages": 3, "last_blocks": 1}
    config = cluster(
        instance(),
        instance(),
        on_arrival=TO_0,
        every=[(5, migrate(*FROM_0_TO_1, live=live))],
        links=(2 * A_BYTE_A_TICK, 0),
    )
    (request,) = replay(config, [TraceRequest(0, 10, 100)]).requests
    assert request.token_times == [*range(1, 19), *range(20, 102)]
    assert [(move.left, move.landed) for move in request.transfers] == [(18, 19)]


def test_a_live_migration_completes_once_little_is_left_to_copy() -> None:
    """As above, but 4 blocks count as little: 7 were added since the first copy, 4 since the second."""
    live = {"stages": 9, "last_blocks": 4}
    config = cluster(
        instance(),
        instance(),
        on_arrival=TO_0,
        every=[(5, migrate(*FROM_0_TO_1, live=live))],
        links=(2 * A_BYTE_A_TICK, 0),
    )
    (request,) = replay(config, [TraceRequest(0, 10, 100)]).requests
    assert [(move.left, move.landed) for move in request.transfers] == [(16, 18)]


def test_a_live_migration_of_a_request_that_finishes_is_dropped() -> None:
    """Copying 14 tokens takes from 5 to 19, and the request finishes at 12."""
    live = {"stages": 3, "last_blocks": 1}
    config = cluster(
        instance(),
        instance(),
        on_arrival=TO_0,
        every=[(5, migrate(*FROM_0_TO_1, live=live))],
        links=(A_BYTE_A_TICK, 0),
    )
    outcome = replay(config, [TraceRequest(0, 10, 12)])
    assert outcome.requests[0].token_times == list(range(1, 13))
    assert outcome.requests[0].transfers == []
    assert outcome.end == 12
