"""Ranked queues in the reference, worked out by hand. A step takes a tick unless copies are made."""

from __future__ import annotations

from differential.wire import (
    Wire,
    a_class,
    cluster,
    const,
    displace,
    field,
    instance,
    op,
    order,
    swap,
)
from paceline.testing.reference.policy_sim import Outcome, TraceRequest, replay

TICK_S = 1e-12
PLENTY = swap(1000)


def replayed(
    requests: list[TraceRequest], *, until: int | None = None, **settings: Wire | int | bool
) -> Outcome:
    return replay(cluster(instance(**settings), until=until), requests)  # type: ignore[arg-type]


def tokens(outcome: Outcome) -> list[list[int]]:
    return [request.token_times for request in outcome.requests]


def below(name: str, limit: float) -> Wire:
    return op("lt", field(name), const(limit))


def test_a_request_that_falls_into_a_worse_class_is_displaced_by_a_waiting_one() -> None:
    """One seat. A leaves the first class at 7 tokens of context, at 3; B has waited since 2."""
    ranks = order(a_class(when=below("req.context_tokens", 7)), a_class())
    outcome = replayed(
        [TraceRequest(0, 4, 6), TraceRequest(2, 4, 2)],
        seats=1,
        order=ranks,
        admission=displace(),
        preemption=PLENTY,
    )
    assert tokens(outcome) == [[1, 2, 3, 6, 7, 8], [4, 5]]
    assert [request.preemptions for request in outcome.requests] == [1, 0]


def test_quanta_are_counted_from_when_a_class_was_entered() -> None:
    """Three tokens of reasoning: a quantum of two is used by 2, none by 3, one of answering by 5."""
    ranks = order(a_class(when=below("req.phase", 2)), a_class(), quantum=2)
    seen = []
    for until in range(1, 6):
        outcome = replayed([TraceRequest(0, 4, 8, reasoning_tokens=3)], order=ranks, until=until)
        (request,) = outcome.requests
        seen.append((request.position, outcome.replicas[0].scheduler.ranking.quanta(request), request.joined))
    assert seen == [(0, 0, 0), (0, 1, 0), (1, 0, 3), (1, 0, 3), (1, 1, 3)]


def test_a_class_that_holds_keeps_a_request_for_its_tokens() -> None:
    """One seat. A request that has waited 3 ticks goes first for 2 tokens; then the lower score does."""
    waited = op("ge", field("req.waiting_s"), const(3 * TICK_S))
    ranks = order(a_class(when=waited, hold=2), a_class(field("req.score")))
    outcome = replayed(
        [TraceRequest(0, 1, 7, score=0.0), TraceRequest(0, 1, 4, score=5.0)],
        seats=1,
        order=ranks,
        admission=displace(),
        preemption=PLENTY,
    )
    assert tokens(outcome) == [[1, 2, 3, 6, 7, 8, 11], [4, 5, 9, 10]]


def test_keys_that_drift_are_evaluated_when_they_are_refreshed() -> None:
    """One seat for the least attained time, evaluated every four steps; ties go to the earlier row."""
    ranks = order(a_class(field("req.attained_s")), steps=4)
    outcome = replayed(
        [TraceRequest(0, 1, 8), TraceRequest(0, 1, 8)],
        seats=1,
        order=ranks,
        admission=displace(),
        preemption=PLENTY,
    )
    assert tokens(outcome) == [[1, 2, 3, 4, 9, 10, 11, 12], [5, 6, 7, 8, 13, 14, 15, 16]]


def test_a_refresh_by_time_is_at_the_first_step_at_or_after_each_multiple() -> None:
    """Steps start at 0, 3, 6, 9, ...: multiples of 4 are seen at 0, 6, 9 and 12."""
    ranks = order(a_class(field("req.attained_s")), ticks=4)
    outcome = replayed(
        [TraceRequest(0, 1, 3), TraceRequest(0, 1, 3)],
        seats=1,
        step=3,
        order=ranks,
        admission=displace(),
        preemption=PLENTY,
    )
    # At 6 A has had 6 and B nothing; at 9 B has had 3; at 12 both have had 6, and A is first.
    assert tokens(outcome) == [[3, 6, 15], [9, 12, 18]]


WORSE_TWICE = [
    TraceRequest(0, 2, 9, priority=5),
    TraceRequest(0, 2, 9, priority=5),
    TraceRequest(0, 2, 9, priority=5),
    TraceRequest(1, 5, 1, priority=0),
]


def test_as_many_worse_requests_are_displaced_as_a_better_one_needs() -> None:
    """Of 10 blocks, 6 are held at 1 and 9 once each has its next; the last arrival needs 5.

    The worst is displaced, then the second worst; of each, the 2 blocks it held before are copied.
    """
    ranks = order(a_class(field("req.priority")))
    outcome = replayed(
        WORSE_TWICE, blocks=10, order=ranks, admission=displace(), preemption=swap(100, out=10)
    )
    assert outcome.replicas[0].steps[1] == [1, [[0, 1, 2], [3, 5, 0]], [2, 1], [4, 0], 2]
    assert outcome.requests[3].token_times == [1 + 40 + 1]
    assert outcome.requests[0].token_times[:2] == [1, 42]


def test_if_more_must_be_displaced_than_a_step_may_no_request_is_admitted() -> None:
    ranks = order(a_class(field("req.priority")))
    outcome = replayed(WORSE_TWICE, blocks=10, order=ranks, admission=displace(most=1), preemption=PLENTY)
    assert outcome.replicas[0].steps[1][1:4] == [[[0, 1, 2], [1, 1, 2], [2, 1, 2]], [], [0, 0]]


def test_no_request_is_displaced_while_the_condition_does_not_hold() -> None:
    ranks = order(a_class(field("req.priority")))
    crowded = op("ge", field("inst.running"), const(4))
    outcome = replayed(WORSE_TWICE, blocks=10, order=ranks, admission=displace(crowded), preemption=PLENTY)
    assert outcome.replicas[0].steps[1][2] == []


def test_without_free_blocks_the_worst_is_preempted_at_any_position() -> None:
    """Two of 3 blocks each fill 6. At the next step both need another: the first is the worse one."""
    ranks = order(a_class(field("req.priority")))
    outcome = replayed(
        [TraceRequest(0, 3, 4, priority=9), TraceRequest(0, 3, 2, priority=1)],
        blocks=6,
        order=ranks,
        preemption=swap(100, out=5, back=5),
    )
    steps = outcome.replicas[0].steps
    assert steps[1] == [1, [[1, 1, 3]], [0], [3, 0], 2]
    # B finishes at 17; A is resumed with its 3 blocks and one for the next token.
    assert steps[2] == [17, [[0, 1, 3]], [], [0, 3], 2]
    assert tokens(outcome) == [[1, 33, 34, 35], [1, 17]]


def test_a_request_that_does_not_fit_in_swap_space_is_recomputed() -> None:
    ranks = order(a_class(field("req.priority")))
    outcome = replayed(
        [TraceRequest(0, 3, 4, priority=9), TraceRequest(0, 3, 2, priority=1)],
        blocks=6,
        order=ranks,
        preemption=swap(2, out=5, back=5),
    )
    assert outcome.replicas[0].scheduler.memory.swap_overflows == 1
    assert outcome.replicas[0].steps[2] == [2, [[0, 4, 0]], [], [0, 0], 2]
    assert tokens(outcome) == [[1, 3, 4, 5], [1, 2]]


def test_a_chunk_takes_what_is_left_of_the_tokens() -> None:
    """4 tokens a step: A's prompt of 3 and one of B's 5; A's next and 3 of B's; then B's last."""
    outcome = replayed([TraceRequest(0, 3, 3), TraceRequest(0, 5, 1)], budget=4, allocation="chunk")
    assert [row[1] for row in outcome.replicas[0].steps] == [
        [[0, 3, 0], [1, 1, 0]],
        [[0, 1, 3], [1, 3, 1]],
        [[0, 1, 4], [1, 1, 4]],
    ]


def test_a_whole_prompt_waits_for_a_step_with_room_for_it() -> None:
    outcome = replayed([TraceRequest(0, 3, 2), TraceRequest(0, 4, 1)], budget=5, chunked=False)
    assert tokens(outcome) == [[1, 2], [2]]
