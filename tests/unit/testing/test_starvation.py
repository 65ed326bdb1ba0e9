"""Starvation: requests passed over by later ones, as opposed to requests that only wait."""

from __future__ import annotations

import pytest

import paceline
from paceline.testing import Starvation, assert_no_starvation, overload, overtaken_s

STEP_S = 0.1


def cluster(instances: int = 1, blocks: int = 100) -> paceline.Cluster:
    instance = paceline.Instance(cost=paceline.Affine(step_s=STEP_S), num_blocks=blocks + 1)
    return paceline.Cluster(instances * [instance])


def ranked(priority: list[int], arrival: list[float] | None = None, output: int = 5) -> paceline.Trace:
    count = len(priority)
    return paceline.Trace.from_columns(
        arrival=[0.01 * row for row in range(count)] if arrival is None else arrival,
        prompt_tokens=[9] * count,
        output_tokens=[output] * count,
        priority=priority,
    )


PRIORITY = paceline.policies.vllm(policy="priority", max_num_seqs=1)


def test_it_counts_from_the_first_later_request_to_the_requests_own_start() -> None:
    # One at a time, half a second each: 0 runs, then 2, 3 and 4 go ahead of 1.
    waited = overtaken_s(paceline.replay(ranked([0, 9, 1, 2, 3]), cluster(), PRIORITY))
    assert waited.round(9).tolist() == [0.0, 3 * 5 * STEP_S, 0.0, 0.0, 0.0]


def test_a_request_that_is_never_admitted_counts_up_to_the_end() -> None:
    result = paceline.replay(ranked([0, 9, 1, 2, 3]), cluster(), PRIORITY, until=1.25)
    assert overtaken_s(result).round(9).tolist()[1] == 1.25 - 0.5


def test_first_come_first_served_passes_no_request_over() -> None:
    trace = ranked([0] * 50)
    policy = paceline.policies.vllm(max_num_seqs=1)
    result = paceline.replay(trace, cluster(), policy)
    assert result.requests["queueing"].max() > 20.0
    assert overtaken_s(result).max() == 0.0
    assert_no_starvation(policy, bound_s=1e-9, trace=trace, cluster=cluster())


def test_a_request_on_another_instance_passes_no_request_over() -> None:
    # In turn: 0 and 2 go to the first instance, 1 and 3 to the second.
    trace = ranked([0, 0, 0, 0], arrival=[0.0, 0.3, 0.31, 0.9])
    policy = paceline.policies.vllm(max_num_seqs=1, routing="round_robin")
    assert overtaken_s(paceline.replay(trace, cluster(2), policy)).max() == 0.0


def test_a_gap_after_a_preemption_counts() -> None:
    # Room for one and a half: the worse one loses its blocks, and waits for the other's end.
    trace = ranked([0, 1], arrival=[0.0, 0.0], output=60)
    result = paceline.replay(trace, cluster(blocks=6), paceline.policies.vllm(policy="priority"))
    row = result.requests.row(1, named=True)
    assert row["preemptions"] == 1
    assert overtaken_s(result).tolist() == [0.0, row["max_itl"]]
    assert row["max_itl"] > STEP_S


def test_overload_is_more_than_the_default_cluster_serves() -> None:
    assert_no_starvation(paceline.policies.vllm(), bound_s=0.5)
    with pytest.raises(Starvation, match=r"vllm has request 5 \(arrival 0.25 s, 100 \+ 40 tokens") as caught:
        assert_no_starvation(paceline.policies.vllm(policy="priority"), bound_s=30.0)
    assert caught.value.request == 5
    assert caught.value.waited_s > 30.0


def test_overload_has_the_ranks_it_says() -> None:
    frame = overload(requests=100, rate_per_s=50.0).frame
    worst = frame.filter(frame["priority"] > 0)
    assert worst.height == 10
    assert (worst["score"] == 1.0).all()
    assert set(worst["output_tokens"]) == {40}
    assert frame["arrival"].max() == 99 / 50
