"""The prefix cache in the reference, worked out by hand. A step takes a tick."""

from __future__ import annotations

from typing import Any

from differential.wire import Wire, a_class, cluster, displace, field, instance, order
from paceline.testing.reference.policy_sim import Outcome, TraceRequest, replay
from paceline.testing.reference.policy_sim.contents import Contents

CACHED = {"unknown_first": True}


def replayed(requests: list[TraceRequest], *, blocks: int, block_tokens: int = 1, **rules: Any) -> Outcome:
    ranks: Wire = rules.pop("order", {"kind": "arrival"})
    one = instance(blocks, block_tokens=block_tokens, allocation="chunk", order=ranks)
    one["scheduler"] |= {"prefix_cache": CACHED, "victim": "latest", **rules}
    return replay(cluster(one), requests)


def test_a_prompt_hits_the_blocks_of_earlier_prompts_but_never_its_last_token() -> None:
    ids = (5, 6, 7, 8)
    outcome = replayed([TraceRequest(0, 4, 1, 0, ids), TraceRequest(3, 4, 1, 0, ids)], blocks=10)
    assert [request.hit_tokens for request in outcome.requests] == [0, 3]
    assert outcome.replicas[0].steps[1] == [3, [[1, 1, 3]], [], [0, 0], 6]


def test_a_prompt_hits_what_is_scheduled_in_its_own_step() -> None:
    ids = (5, 6, 7, 8)
    outcome = replayed([TraceRequest(0, 4, 1, 0, ids), TraceRequest(0, 4, 1, 0, ids)], blocks=10)
    assert outcome.replicas[0].steps == [[0, [[0, 4, 0], [1, 1, 3]], [], [0, 0], 5]]


def test_a_turn_hits_what_was_said_before_it_once_that_is_finished() -> None:
    """Prompt and answer of the first turn are 2 + 4 tokens, of which the last is never computed on.

    Row 1 arrives at 2, when the answer is under way: it finds only the prompt. Row 2 finds 5 tokens.
    """
    turns = [
        TraceRequest(0, 2, 4, session=0),
        TraceRequest(2, 8, 1, session=0),
        TraceRequest(9, 9, 1, session=0),
    ]
    outcome = replayed(turns[:2], blocks=50)
    assert [request.hit_tokens for request in outcome.requests] == [0, 2]
    outcome = replayed([turns[0], turns[2]], blocks=50)
    assert [request.hit_tokens for request in outcome.requests] == [0, 5]


def test_the_end_of_the_least_recently_freed_chain_is_reused_first() -> None:
    """Six blocks. Rows 0 and 1 leave three each; row 2 takes two, those of row 0's end.

    So row 3 finds one of its three; for the others it evicts row 1's, which are next, and row 4 finds none.
    """
    requests = [
        TraceRequest(0, 3, 1, 0, (1, 2, 3)),
        TraceRequest(2, 3, 1, 0, (4, 5, 6)),
        TraceRequest(4, 2, 1),
        TraceRequest(6, 4, 1, 0, (1, 2, 3)),
        TraceRequest(8, 4, 1, 0, (4, 5, 6)),
    ]
    outcome = replayed(requests, blocks=6)
    assert [request.hit_tokens for request in outcome.requests] == [0, 0, 0, 1, 0]
    without = replayed([*requests[:3], requests[4]], blocks=6)
    assert [request.hit_tokens for request in without.requests] == [0, 0, 0, 3]


def test_a_victims_blocks_count_as_free_only_where_no_other_request_holds_them() -> None:
    """Of 8 blocks rows 0 and 1 share three and hold two more each at 1.

    Row 2 needs two. The worst, row 1, would free two; with row 0 gone too it would be five.
    """
    ids = (7, 7, 7)
    requests = [
        TraceRequest(0, 4, 4, 1, ids),
        TraceRequest(0, 4, 4, 2, ids),
        TraceRequest(1, 3, 1, 0),
    ]
    by_priority = order(a_class(field("req.priority")))
    outcome = replayed(requests, blocks=8, order=by_priority, admission=displace())
    first, second = outcome.replicas[0].steps[:2]
    assert first == [0, [[0, 4, 0], [1, 1, 3]], [], [0, 0], 3]
    # Of 1 free and 2 of row 1 it takes three; the three that are shared stay with row 0.
    assert second == [1, [[0, 1, 4], [2, 3, 0]], [1], [0, 0], 0]


def test_blocks_that_only_victims_held_leave_the_free_ones_when_they_are_hit() -> None:
    """Row 1 shares its three tokens with the victim, row 0, which holds 5 of 6 blocks and takes the sixth.

    It computes one token in one block beside the three: of the six that come free two stay.
    """
    ids = (7, 7, 7)
    requests = [TraceRequest(0, 5, 2, 1, ids), TraceRequest(1, 4, 1, 0, ids)]
    by_priority = order(a_class(field("req.priority")))
    outcome = replayed(requests, blocks=6, order=by_priority, admission=displace())
    assert outcome.replicas[0].steps[1] == [1, [[1, 1, 3]], [0], [0, 0], 2]


def test_a_shorter_prompt_starts_a_conversation_of_its_own() -> None:
    turns = [TraceRequest(at, prompt, 2, session=0) for at, prompt in ((0, 4), (1, 6), (2, 5), (3, 7))]
    contents = Contents(turns, block_tokens=2, trace_block_tokens=2)
    names = [contents.name(row, 0) for row in range(4)]
    assert names[0] == names[1] != names[2] == names[3]


def test_blocks_of_the_trace_may_be_larger_or_smaller_than_the_engines() -> None:
    both = [TraceRequest(0, 8, 1, prefix=(1, 2)), TraceRequest(0, 8, 1, prefix=(1, 3))]
    large = Contents(both, block_tokens=8, trace_block_tokens=4)
    assert large.name(0, 0) != large.name(1, 0)
    small = Contents(both, block_tokens=1, trace_block_tokens=4)
    assert [small.name(0, at) == small.name(1, at) for at in range(8)] == 4 * [True] + 4 * [False]
