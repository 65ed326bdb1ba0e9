"""Stages and the rules that they share, in the reference, worked out by hand.

A step takes a tick and a block holds a token unless said otherwise. A step's row is its start, its
requests as [row, tokens, computed before], the rows of its victims, the blocks copied, and free blocks.
"""

from __future__ import annotations

from typing import Any

import pytest

from differential.wire import Wire, cluster, instance, swap
from paceline.testing.reference.policy_sim import Outcome, Stuck, TraceRequest, replay

RUNNING: Wire = {"kind": "running"}
PREFILLS: Wire = {"kind": "prefills"}


def admit(**fields: Any) -> Wire:
    plain = {"chunked": True, "unless_preempted": False, "unless_swapped": False, "count_decodes": True}
    return {"kind": "admit", **plain, "gather": None, **fields}


def decodes(**fields: bool) -> Wire:
    return {"kind": "decodes", "charged": True, "seated": False, "over_prefills": True, **fields}


def swap_in(*, unless_preempted: bool = False) -> Wire:
    return {"kind": "swap_in", "unless_preempted": unless_preempted}


def layered(layers: int, groups: int) -> Wire:
    rule = {"limits": [], "tokens_per_group": 0, "most": groups}
    return {"kind": "layered", "layers": layers, "groups": rule}


def replayed(
    requests: list[TraceRequest],
    *stages: Wire,
    blocks: int = 1000,
    budget: int = 1000,
    seats: int = 1000,
    step: int = 1,
    allocation: str = "sequence",
    **rules: Any,
) -> Outcome:
    one = instance(blocks, budget=budget, seats=seats, step=step, allocation=allocation)
    one["scheduler"] |= {"stages": list(stages), "order": {"kind": "arrival"}, "victim": "latest", **rules}
    return replay(cluster(one), requests)


def rows(outcome: Outcome) -> list[list[Any]]:
    return outcome.replicas[0].steps


def tokens(outcome: Outcome) -> list[list[int]]:
    return [request.token_times for request in outcome.requests]


def test_a_request_that_has_its_tokens_is_passed_over_by_later_stages() -> None:
    outcome = replayed([TraceRequest(0, 20, 2)], admit(), RUNNING, budget=8, allocation="chunk")
    assert [row[1] for row in rows(outcome)] == [[[0, 8, 0]], [[0, 8, 8]], [[0, 4, 16]], [[0, 1, 20]]]


def test_a_step_with_prefills_has_no_decodes_where_they_exclude_each_other() -> None:
    """Row 1 arrives at 1 with a prompt of two steps, in which row 0 sits."""
    outcome = replayed(
        [TraceRequest(0, 4, 3), TraceRequest(1, 14, 1)],
        PREFILLS,
        admit(),
        decodes(),
        budget=8,
        exclusive_prefill=True,
    )
    assert tokens(outcome) == [[1, 4, 5], [3]]


def test_a_half_done_prefill_is_not_swapped_in_beside_decodes_that_exclude_it() -> None:
    """Of 16 blocks, rows 0, 1 and 2 hold 2, 8 and 6 at 3: row 2 lacks two for its prompt, and waits.

    So rows 0 and 1 decode, and row 2 is preempted. It would fit again from 5 on, when row 1 finishes. Row 0
    decodes until 14.
    """
    outcome = replayed(
        [TraceRequest(0, 2, 12), TraceRequest(0, 8, 3), TraceRequest(0, 8, 1)],
        PREFILLS,
        admit(),
        decodes(),
        swap_in(),
        blocks=16,
        budget=8,
        allocation="chunk_if_all_fits",
        exclusive_prefill=True,
        long_prefill_token_threshold=3,
        preemption=swap(100),
    )
    assert rows(outcome)[3] == [3, [[0, 1, 2], [1, 1, 8]], [2], [6, 0], 4]
    assert tokens(outcome) == [[1, *range(4, 15)], [3, 4, 5], [15]]


def test_a_swapped_prefill_needs_blocks_for_all_that_it_computes() -> None:
    """Of 16 blocks, rows 0, 1 and 2 hold 3, 5 and 8 at 2, and row 2 is preempted with 8 of its 12 tokens.

    At 3 row 1 finishes and 11 blocks are free: enough for the tokens row 2 had, not for those it has to
    compute. It is swapped in at 10, when row 0 finishes.
    """
    outcome = replayed(
        [TraceRequest(0, 2, 10), TraceRequest(0, 4, 3), TraceRequest(0, 12, 1)],
        RUNNING,
        swap_in(),
        admit(unless_swapped=True),
        blocks=16,
        budget=8,
        allocation="chunk",
        preemption=swap(100),
    )
    assert rows(outcome)[2] == [2, [[0, 1, 3], [1, 1, 5]], [2], [8, 0], 6]
    assert rows(outcome)[3] == [3, [[0, 1, 4]], [], [0, 0], 11]
    assert rows(outcome)[-1] == [10, [[2, 4, 8]], [], [0, 8], 4]


def test_copies_are_charged_to_the_step_that_is_formed_after_all_were_preempted() -> None:
    """Both need a block at 1 and none is free: row 1 is preempted, then row 0 finds two free.

    Each block out takes 10 ticks; the two of row 1 are copied before the step at 1.
    """
    outcome = replayed(
        [TraceRequest(0, 2, 3), TraceRequest(0, 2, 2)],
        RUNNING,
        swap_in(unless_preempted=True),
        admit(),
        blocks=4,
        preemption=swap(100, out=10),
    )
    assert rows(outcome)[1] == [1, [[0, 1, 2]], [1], [2, 0], 1]
    assert outcome.requests[0].token_times == [1, 1 + 20 + 1, 23]


def test_a_batch_is_gathered_until_it_is_full_or_the_first_has_waited() -> None:
    gather = {"size": 3, "wait": 10}
    requests = [TraceRequest(at, 2, 1) for at in (0, 4, 20, 21, 22, 23)]
    outcome = replayed(requests, RUNNING, admit(gather=gather))
    # Rows 0 and 1 start as row 0 has waited 10; three are there at 22; row 5 waits until 33.
    assert tokens(outcome) == [[11], [11], [23], [23], [23], [34]]


def test_decodes_that_were_not_scheduled_stand_before_those_that_ran() -> None:
    """Decodes first in the order: the prompt of row 1 is scheduled behind row 0, admitted after it."""
    outcome = replayed(
        [TraceRequest(0, 9, 2), TraceRequest(0, 2, 6)],
        admit(),
        RUNNING,
        budget=6,
        decodes_first=True,
        long_prefill_token_threshold=4,
    )
    # At 1 row 1 decodes; from then on it stands before the prefill of row 0.
    assert [[entry[0] for entry in row[1]] for row in rows(outcome)][:3] == [[0, 1], [1, 0], [1, 0]]


def test_a_victim_may_be_resumed_in_its_step_unless_it_is_requeued_after_the_step() -> None:
    """Of 5 blocks rows 0 and 1 hold 4 at 1. Row 0 takes the fifth, and row 1 finds none: it is preempted."""
    requests = [TraceRequest(0, 2, 2), TraceRequest(0, 2, 2), TraceRequest(1, 1, 1)]
    soon, late = (
        replayed(requests, RUNNING, admit(), blocks=5, allocation="chunk", requeue_late=late)
        for late in (False, True)
    )
    assert rows(soon)[1] == [1, [[0, 1, 2]], [1], [0, 0], 2]
    # It is queued at the head only after row 2 was admitted.
    assert rows(late)[1] == [1, [[0, 1, 2], [2, 1, 0]], [1], [0, 0], 1]


def test_requests_behind_one_that_preempted_itself_are_not_scheduled() -> None:
    """A block holds two tokens; at 2 row 0 needs one, and the worst by priority is itself."""
    requests = [TraceRequest(0, 3, 4, priority=1), TraceRequest(0, 2, 4)]
    rules: dict[str, Any] = {"victim": "worst", "blocks": 6, "allocation": "chunk"}
    goes_on = replayed(requests, RUNNING, admit(unless_preempted=True), **rules)
    stops = replayed(requests, RUNNING, admit(unless_preempted=True), stop_at_own_preemption=True, **rules)
    own = next(i for i, row in enumerate(rows(goes_on)) if row[2] == [0])
    assert [entry[0] for entry in rows(goes_on)[own][1]] == [1]
    # No request is left to run in the step, so it is formed again, with the freed blocks.
    assert rows(stops)[own][1][0][0] == 1


def test_prefills_go_through_groups_of_layers_beside_decodes() -> None:
    """Five layers in two groups, of three and two: a prompt of ten tokens takes 6 ticks, then 4."""
    one = instance(1000, step=0, token=1, allocation="sequence")
    stages = [decodes(charged=False), layered(5, 2)]
    one["scheduler"] |= {"stages": stages, "order": {"kind": "arrival"}, "victim": "latest"}
    outcome = replay(cluster(one), [TraceRequest(0, 10, 2), TraceRequest(7, 10, 1)])
    # Row 1 is admitted at 10, beside row 0's last token: 1 + 6, and 4.
    assert tokens(outcome) == [[10, 17], [21]]
    assert [step.group for step in outcome.replicas[0].formed_steps] == [(0, 2), (1, 2), (0, 2), (1, 2)]
    assert outcome.replicas[0].counts.prefill_tokens == 20


def test_an_arrival_waits_for_the_step_that_is_decided_already() -> None:
    """Steps of 10: row 1 arrives at 5, after the step from 0 has started; it is admitted at 20, not at 10."""
    requests = [TraceRequest(0, 2, 5), TraceRequest(5, 2, 1)]
    plain, ahead = (
        replayed(requests, RUNNING, admit(), step=10, schedule_ahead=ahead) for ahead in (False, True)
    )
    assert tokens(plain)[1] == [20]
    assert tokens(ahead)[1] == [30]


def test_an_arrival_waits_for_the_step_that_receives_it() -> None:
    """Steps of 10 with a receipt every three of them without a prompt: row 0's prompt ends at 10.

    Row 1 arrives before that, and is received then. Its prompt ends at 20, so that arrivals are received at
    20 and 50. Row 2 arrives at 21. Row 3 arrives when nothing runs, and is received at once.
    """
    requests = [TraceRequest(0, 2, 7), TraceRequest(5, 2, 1), TraceRequest(21, 2, 1), TraceRequest(95, 2, 1)]
    assert tokens(replayed(requests, RUNNING, admit(), step=10))[1:] == [[20], [40], [105]]
    between = tokens(replayed(requests, RUNNING, admit(), step=10, receive_interval=3))
    assert between == [[10, 20, 30, 40, 50, 60, 70], [20], [60], [105]]
    ahead = tokens(replayed(requests, RUNNING, admit(), step=10, receive_interval=3, schedule_ahead=True))
    # The receipt at 10 sees what had arrived by 0, the start of that step; the one at 40 sees both rows.
    assert ahead[1:3] == [[50], [50]]


def test_blocks_of_a_finished_request_are_free_from_the_step_after_the_next() -> None:
    """Row 1 fits only without row 0, which finishes at 10; the step at 10 is decided already, and empty."""
    requests = [TraceRequest(0, 4, 1), TraceRequest(0, 4, 1), TraceRequest(0, 1, 3)]
    outcome = replayed(requests, RUNNING, admit(), blocks=8, step=10, schedule_ahead=True)
    assert tokens(outcome)[0] == [10]
    again = replayed(requests[:2], RUNNING, admit(), blocks=7, step=10, schedule_ahead=True)
    # With no other request there is nothing to run at 10, so that all is known at once.
    assert tokens(again) == [[10], [20]]


def test_a_request_that_has_ended_is_the_victim_of_the_step_decided_before() -> None:
    """Row 1 yields its last token at 20, with the step in flight as the step from 20 on is decided.

    Both hold three of six blocks then. Row 0 lacks a fourth: the last admitted is preempted, which is row 1
    for that decision, and which keeps both its tokens. vLLM counts the preemption when it reads the events of
    the request's last output (`IterationStats.update_from_events`, 0.33.0).
    """
    requests = [TraceRequest(0, 2, 5), TraceRequest(0, 2, 2)]
    outcome = replayed(
        requests,
        RUNNING,
        admit(unless_preempted=True),
        blocks=6,
        step=10,
        allocation="chunk",
        schedule_ahead=True,
    )
    assert tokens(outcome) == [[10, 20, 30, 40, 50], [10, 20]]
    assert [row[2] for row in rows(outcome)] == [[], [], [1], [], []]
    assert [request.preemptions for request in outcome.requests] == [0, 1]


def test_a_request_preempted_by_a_step_decided_ahead_may_lose_its_latest_token() -> None:
    """Steps of 10 on 12 blocks: both have yielded a fourth token at 40, when none is free.

    Row 1 is the victim. It comes back at 60, when row 0 has ended, with three or four tokens of its output.
    """
    requests = [TraceRequest(0, 3, 6), TraceRequest(0, 3, 6)]
    for drops, expected in ((True, [10, 20, 30, 70, 80, 90]), (False, [10, 20, 30, 40, 70, 80])):
        outcome = replayed(
            requests,
            admit(),
            decodes(),
            blocks=12,
            step=10,
            allocation="chunk",
            exclusive_prefill=True,
            victim="fewest_generated",
            requeue_last=True,
            output_reserve={"first": 0, "least": 0, "steps": 1, "after": 0, "clip": 1},
            schedule_ahead=True,
            drop_unseen=drops,
        )
        assert tokens(outcome) == [[10, 20, 30, 40, 50, 60], expected]
        assert [row[2] for row in rows(outcome)] == [[], [], [], [], [1], *[[]] * (4 if drops else 3)]


def test_a_step_decided_ahead_computes_drafts_of_a_request_that_may_have_ended() -> None:
    """Steps of 10, two drafts of which one is accepted. The step from 20 on is decided at 10.

    Row 0 has one token then. It may have two at 20, and has all three. Its tokens are discarded, and count
    all drafts before as computed: 4 of the prompt and 3. Row 1, which arrives at 15, runs in the step after.
    """
    one = instance(1000, step=10, allocation="chunk")
    one["speculation"] = {
        "tokens": 2, "by_batch": [], "proposals": None, "lookahead": 2, "input_slots": 0, "hash_lookahead": 0,
        "drops_last_block": False, "pads": True, "acceptance": {"kind": "periodic", "yields": [2]},
    }  # fmt: skip
    one["scheduler"] |= {
        "stages": [RUNNING, admit(unless_preempted=True)],
        "order": {"kind": "arrival"},
        "victim": "latest",
        "schedule_ahead": True,
    }
    outcome = replay(cluster(one), [TraceRequest(0, 4, 3), TraceRequest(15, 4, 1)])
    assert tokens(outcome) == [[10, 20, 20], [40]]
    assert [row[:2] for row in rows(outcome)] == [
        [0, [[0, 4, 0]]],
        [10, [[0, 3, 4]]],
        [20, [[0, 3, 7]]],
        [30, [[1, 4, 0]]],
    ]
    assert outcome.replicas[0].counts.decode_tokens == 2


def test_requests_that_can_never_be_scheduled_end_a_replay_with_an_error() -> None:
    """Either prompt fits alone; in chunks of three both are admitted, and each lacks two of 12 blocks."""
    with pytest.raises(Stuck, match="at 2: requests wait and none can run"):
        replayed(
            [TraceRequest(0, 8, 1), TraceRequest(0, 8, 1)],
            PREFILLS,
            admit(),
            decodes(),
            blocks=12,
            budget=8,
            allocation="chunk_if_all_fits",
            exclusive_prefill=True,
            long_prefill_token_threshold=3,
        )


def test_a_prompt_that_has_outgrown_a_step_is_dropped() -> None:
    """Row 1 is preempted at 2 with 6 tokens of prompt and 2 of output, and 8 exceed the seven of a step."""
    outcome = replayed(
        [TraceRequest(0, 5, 6), TraceRequest(1, 6, 4)],
        RUNNING,
        admit(chunked=False, unless_preempted=True),
        blocks=14,
        budget=7,
        allocation="chunk",
    )
    assert outcome.status(1) == "rejected"
    assert outcome.rejected == [None, "max_num_batched_tokens"]
    assert outcome.requests[1].generated == 2
