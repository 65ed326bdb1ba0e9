"""Orders between tenants, programs and cached prompts: timelines by hand.

A step takes a second. With one seat a request of one output token runs for a step.
"""

from __future__ import annotations

import pytest

from paceline import Trace, policies
from paceline.errors import PolicyError, TraceError
from paceline.policy import Recompute
from paceline.trace import critical_path
from unit.policies.scenario import run, times


def test_a_longer_cached_prefix_is_first_where_the_tenant_has_a_deficit() -> None:
    """Row 0 leaves blocks 1, 2, 3, and a with 983. Row 2 has them all, row 1 none: row 2 is next."""
    rows = [(0.0, 16, 1), (0.5, 16, 1), (0.5, 16, 1)]
    prefix = {"prefix": [[1, 2, 3], [7, 8, 9], [1, 2, 3]], "prefix_block_tokens": 4}
    result = run(policies.dlpm(max_num_seqs=1), rows, tenant=["a", "a", "a"], **prefix)
    assert times(result, "scheduled") == [0, 2, 1]
    assert result.requests["cached_tokens"].to_list() == [0, 0, 12]


def test_a_tenant_without_a_deficit_waits_though_its_prompts_are_cached() -> None:
    """With a quantum of 5, row 0 leaves a at 5 - 16 - 1; b gets the seat with 5, and is at -12 after it.

    At 2 s both are behind. Quanta are added to both: a is above 0 after three, and b with it: row 2 is next
    by its prefix.
    """
    rows = [(0.0, 16, 1), (0.5, 16, 1), (0.5, 16, 1)]
    prefix = {"prefix": [[1, 2, 3], [7, 8, 9], [1, 2, 3]], "prefix_block_tokens": 4}
    result = run(policies.dlpm(max_num_seqs=1, quantum=5.0), rows, tenant=["a", "b", "a"], **prefix)
    assert times(result, "scheduled") == [0, 1, 2]


def test_cached_prompts_are_first_and_then_the_order_of_arrival() -> None:
    rows = [(0.0, 16, 1), (0.5, 16, 1), (0.6, 16, 1), (0.7, 12, 1)]
    ids = [[1, 2, 3], [7, 8, 9], [7, 8, 9], [1, 2]]
    prefix = {"prefix": ids, "prefix_block_tokens": 4}
    result = run(policies.cache_affinity(max_num_seqs=1), rows, **prefix)
    assert times(result, "scheduled") == [0, 2, 3, 1]


def test_the_fewest_blocks_left_are_first_until_a_request_has_waited_for_long() -> None:
    """At 1 s: row 1 lacks 6 blocks, row 2 lacks 8 of which 3 are cached, row 3 lacks 4. With 2 s they age."""
    rows = [(0.0, 13, 1), (0.5, 24, 1), (0.6, 32, 1), (0.7, 16, 1), (0.8, 8, 1)]
    prefix = {"prefix": [[1, 2, 3], [], [1, 2, 3], [], []], "prefix_block_tokens": 4}
    policy = policies.residual_sjf(max_num_seqs=1, block_tokens=4)
    assert times(run(policy, rows, **prefix), "scheduled") == [0, 4, 3, 2, 1]
    policy = policies.residual_sjf(max_num_seqs=1, block_tokens=4, max_wait_s=1.4)
    assert times(run(policy, rows, **prefix), "scheduled") == [0, 2, 3, 4, 1]


def test_a_short_prompt_passes_a_long_one_that_has_not_waited_for_long() -> None:
    """Row 1 is 60 tokens longer than row 2, which comes 0.3 s later: as much as 30 tokens, or 90."""
    rows = [(0.0, 8, 1), (0.5, 70, 1), (0.8, 10, 1)]
    for per_s, scheduled in ((100.0, [0, 2, 1]), (300.0, [0, 1, 2])):
        policy = policies.shortest_prompt(max_num_seqs=1, tokens_per_s=per_s)
        assert times(run(policy, rows), "scheduled") == scheduled


def test_tenants_take_turns() -> None:
    """A has one request before b comes at 1.5 s; b is lifted to 2, with a at 2 of which two more wait."""
    rows = [(0.0, 8, 1)] * 4 + [(1.5, 8, 1)] * 2
    policy = policies.flow_control(fairness="round_robin", bands=False, max_num_seqs=1)
    assert times(run(policy, rows, tenant=["a"] * 4 + ["b"] * 2), "scheduled") == [0, 1, 2, 4, 3, 5]


def test_a_better_band_is_first_and_then_the_earlier_deadline() -> None:
    rows = [(0.0, 8, 1), (0.1, 8, 1), (0.2, 8, 1), (0.3, 8, 1), (0.4, 8, 1)]
    policy = policies.flow_control(ordering="deadline", max_num_seqs=1)
    result = run(policy, rows, priority=[0, 1, 1, 0, 1], slo_ttft=[9.0, 9.0, 1.0, None, None])
    assert times(result, "scheduled") == [0, 3, 2, 1, 4]


def test_the_tenant_of_which_less_was_finished_is_first_and_time_forgets() -> None:
    """A's 9 tokens count at 1 s, and 11 more at 4 s: b, with nothing, is then first."""
    rows = [(0.0, 8, 1), (0.9, 8, 3), (1.5, 8, 1), (1.6, 8, 1), (1.7, 8, 1)]
    policy = policies.flow_control(fairness="least_service", bands=False, max_num_seqs=1)
    result = run(policy, rows, tenant=["a", "a", "a", "b", "b"])
    # Half of what a has counts after a minute: some 20 at 4 s, and at 5 s, where b has 9; b has 18 at 6 s.
    assert times(result, "scheduled") == [0, 1, 6, 4, 5]


def test_a_share_is_of_tokens() -> None:
    """Each request is 9 tokens: a is charged 3 for each, b 9. In a tie the older one is first."""
    rows = [(0.0, 8, 1)] * 8
    policy = policies.weighted_fair(shares={"a": 3.0}, max_num_seqs=1)
    result = run(policy, rows, tenant=["a"] * 6 + ["b"] * 2)
    assert times(result, "scheduled") == [0, 2, 3, 4, 6, 7, 1, 5]


def test_a_tenant_at_its_limit_waits_and_others_pass() -> None:
    rows = [(0.0, 8, 3), (0.0, 8, 3), (0.0, 8, 1)]
    result = run(policies.quotas(running=1), rows, tenant=["a", "a", "b"])
    assert times(result, "scheduled") == [0, 3, 0]


def test_a_request_that_is_held_for_long_is_dropped() -> None:
    """One runs for 5 s, one waits on the instance, one at the router: for 2 s."""
    rows = [(0.0, 8, 5), (0.5, 8, 1), (0.6, 8, 1)]
    policy = policies.shed_late(after=2.0, scheduler=policies.vllm(max_num_seqs=1).scheduler)
    result = run(policy, rows)
    assert result.requests["status"].to_list() == ["finished", "finished", "gave_up"]
    assert times(result, "scheduled") == [0, 5, None]


def test_the_program_that_was_served_least_is_next() -> None:
    """Program x has 70 tokens after row 0, which is beyond the first queue of 2 * 20. y is new."""
    # Row 0 has all blocks until 4 s, when rows 1 and 2 are there; each of them needs all, too.
    rows = [(0.0, 66, 4), (2.5, 66, 1), (2.6, 66, 1)]
    result = run(
        policies.plas(first_queue=20.0, preemption=Recompute()), rows, blocks=18, session=["x", "x", "y"]
    )
    assert times(result, "scheduled") == [0, 5, 4]


def test_the_critical_path_is_the_longest_chain_of_calls_before() -> None:
    trace = Trace.from_columns(
        arrival=[0.0, 0.0, 1.0, 2.0],
        prompt_tokens=[10, 20, 5, 7],
        output_tokens=[5, 30, 1, 1],
        request_id=["a", "b", "c", "d"],
        parents=[[], [], ["a", "b"], ["c"]],
    )
    assert critical_path(trace).frame["critical_path"].to_list() == [0, 0, 50, 56]
    with pytest.raises(TraceError, match="has a column critical_path already"):
        critical_path(critical_path(trace))
    with pytest.raises(TraceError, match="needs requests that wait for others"):
        critical_path(Trace.from_columns(arrival=[0], prompt_tokens=[1], output_tokens=[1]))


def test_calls_behind_a_short_path_are_first() -> None:
    rows = [(0.0, 16, 1), (0.5, 16, 1), (0.6, 16, 1)]
    policy = policies.atlas(first_queue=20.0, preemption=Recompute())
    result = run(policy, rows, blocks=2, critical_path=[0.0, 200.0, 0.0], block_tokens=8)
    assert times(result, "scheduled") == [0, 2, 1]


def test_misuse_is_refused() -> None:
    with pytest.raises(PolicyError, match="running must be at least 1 request, was 0"):
        policies.quotas(running=0)
    with pytest.raises(PolicyError, match="queues must be at least 1, was 0"):
        policies.plas(queues=0)
    with pytest.raises(PolicyError, match=r"req.column\('slo_ttft'\) needs a trace with the column slo_ttft"):
        run(policies.flow_control(ordering="deadline", bands=False), [(0.0, 8, 1)])
