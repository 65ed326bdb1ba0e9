"""The virtual token counter: timelines by hand, and the bound of its theorem.

A step takes a second. A prompt token is charged 1, an output token 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import policies
from paceline.errors import PolicyError
from paceline.result import Result
from unit.policies.scenario import Shape, run, times


def test_the_tenant_with_the_least_service_is_next() -> None:
    """Row 0 leaves a at 12. Rows 2 and 3 take b from 0 over 6 to 12; then row 1 is the oldest of equals."""
    rows = [(0.0, 10, 1), (0.0, 10, 1), (0.0, 4, 1), (0.0, 4, 1)]
    result = run(policies.vtc(max_num_seqs=1), rows, tenant=["a", "a", "b", "b"])
    assert times(result, "scheduled") == [0, 3, 1, 2]


@pytest.mark.parametrize(
    ("lift", "of_b"), [("artifact", [3, 5, 7]), ("paper", [3, 5, 7]), ("none", [3, 4, 5])]
)
def test_a_tenant_that_comes_to_the_queue_is_lifted_to_the_least_of_those_that_wait(
    lift: str, of_b: list[float]
) -> None:
    """At 2.5 s a has 34: three prompts of 10 and two tokens. b begins there, and at 3 s a has 36.

    From then on both rise by 12 a request, so they take turns. From 0 b would be first three times.
    """
    rows = [(0.0, 10, 1)] * 6 + [(2.5, 10, 1)] * 3
    result = run(policies.vtc(max_num_seqs=1, lift=lift), rows, tenant=["a"] * 6 + ["b"] * 3)  # type: ignore[arg-type]
    assert times(result, "scheduled")[6:] == of_b


@pytest.mark.parametrize(("lift", "scheduled"), [("artifact", [0, 3, 4, 5, 6]), ("paper", [0, 3, 5, 4, 6])])
def test_if_no_request_waits_only_the_papers_rule_lifts(lift: str, scheduled: list[float]) -> None:
    """At 1.5 s a has 12, and none of its requests waits. At 3 s it has 16, and two of each tenant wait.

    The artifact leaves b at 0: it is first at 3 s, and with 12 at 4 s. In the paper it is first with 12, and
    then has 24 while a has 16.
    """
    rows = [(0.0, 10, 3), (1.5, 10, 1), (1.5, 10, 1), (1.6, 10, 1), (1.6, 10, 1)]
    result = run(policies.vtc(max_num_seqs=1, lift=lift), rows, tenant=["a", "b", "b", "a", "a"])  # type: ignore[arg-type]
    assert times(result, "scheduled") == scheduled


def test_a_share_of_two_is_served_twice_as_often() -> None:
    """A is charged 6 a request and b 12: in a tie the older request, which is of a, goes first."""
    rows = [(0.0, 10, 1)] * 9
    policy = policies.vtc(max_num_seqs=1, shares={"a": 2.0, "absent": 3.0})
    result = run(policy, rows, tenant=["a"] * 6 + ["b"] * 3)
    assert times(result, "scheduled") == [0, 2, 3, 5, 6, 8, 1, 4, 7]


def test_no_other_tenant_passes_a_request_that_does_not_fit() -> None:
    """Row 0 of a holds 8 of 10 blocks until 3 s. b has the least, and needs 5; a's row 1 would fit."""
    rows = [(0.0, 30, 3), (0.5, 4, 1), (0.6, 20, 1)]
    result = run(policies.vtc(), rows, blocks=10, tenant=["a", "a", "b"])
    assert times(result, "scheduled") == [0, 3, 3]
    assert times(run(policies.vtc(), rows[:2], blocks=10, tenant=["a", "a"]), "scheduled") == [0, 1]


def test_tokens_are_charged_as_they_appear() -> None:
    """A's 20 tokens of output take it past b, whose prompts are long, after the run has begun.

    Two seats. Rows 0 (a) and 1 (b) run from 0 s: a has 4 + 2 a second, b 30 + 2 a second and ends at 1 s with
    32. At 1 s a has 6 and is next (row 2, until 2 s: 10 + 2 + 2), at 2 s a has 14 (row 3: 22), at 3 s 22 (row
    4: 30).
    At 4 s a has 30, b 32: row 5 leaves a at 38, so at 5 s b is next.
    """
    rows = [(0.0, 4, 20), (0.0, 30, 1), *[(0.0, 4, 1)] * 5, (0.0, 30, 1)]
    for leap in (False, True):
        result = run(
            policies.vtc(max_num_seqs=2), rows, leap=leap, tenant=["a", "b", *["a"] * 5, "b"], blocks=200
        )
        assert times(result, "scheduled") == [0, 0, 1, 2, 3, 4, 6, 5]


def service(result: Result, rows: Sequence[Shape], tenants: Sequence[str], tenant: str, moment: int) -> float:
    """Return what a tenant has received by a moment, if steps take a second and no request is preempted."""
    scheduled, first = times(result, "scheduled"), times(result, "first_token")
    total = 0.0
    for row, (_, prompt, output) in enumerate(rows):
        start, token = scheduled[row], first[row]
        assert start is not None
        assert token is not None
        if tenants[row] == tenant and start <= moment:
            total += prompt + 2 * max(0, min(output, moment - round(token) + 1))
    return total


@given(
    shapes=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 8)), min_size=16, max_size=30),
    seats=st.integers(1, 4),
    of_a=st.integers(3, 8),
)
def test_tenants_that_both_wait_differ_by_at_most_the_bound_of_the_theorem(
    shapes: list[tuple[int, int]], seats: int, of_a: int
) -> None:
    """Theorem 4.4: in any interval in which both wait, by at most 2 max(w_p L_input, w_q M).

    L_input is the longest prompt, and M the most tokens of a batch.
    """
    tenants = ["a" if index % 10 < of_a else "b" for index in range(len(shapes))]
    rows = [(0.0, prompt, output) for prompt, output in shapes]
    result = run(policies.vtc(max_num_seqs=seats, max_num_batched_tokens=64), rows, tenant=tenants)
    assert result.requests["preemptions"].sum() == 0
    scheduled = times(result, "scheduled")
    both = int(min(max(at for at, of in zip(scheduled, tenants, strict=True) if of == one) for one in "ab"))  # type: ignore[type-var, arg-type]
    longest = max(prompt for prompt, _ in shapes)
    most = seats * max(prompt + output for prompt, output in shapes)
    received = {one: [service(result, rows, tenants, one, at) for at in range(both + 1)] for one in "ab"}
    for start, end in combinations(range(both + 1), 2):
        gained = {one: each[end] - each[start] for one, each in received.items()}
        assert abs(gained["a"] - gained["b"]) <= 2 * max(longest, 2 * most)


def test_a_tenant_alone_is_served_as_if_first_come_first_served() -> None:
    rows = [(0.3 * index, 5 + index % 3, 1 + index % 4) for index in range(12)]
    alone = run(policies.vtc(max_num_seqs=2), rows, tenant=["a"] * 12)
    plain = run(policies.vllm(max_num_seqs=2), rows)
    assert times(alone, "finish") == times(plain, "finish")


def test_the_trace_must_have_tenants() -> None:
    with pytest.raises(
        PolicyError, match="accumulated\\(by='tenant'\\) needs a trace with the column tenant"
    ):
        run(policies.vtc(), [(0.0, 1, 1)])
