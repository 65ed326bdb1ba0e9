"""Splitwise' router: which instance has the prompt, which has the tokens, and which change pools."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import paceline
from paceline import policies
from paceline.errors import PolicyError
from paceline.policy import Policy
from paceline.result import Result
from unit.policies.scenario import workloads


def replayed(
    policy: Policy, requests: list[tuple[float, int, int]], *, instances: int, blocks: int
) -> Result:
    """Replay through instances with blocks of a token; a step takes a second, a transfer no time."""
    arrival, prompt, output = zip(*requests, strict=True)
    trace = paceline.Trace.from_columns(
        arrival=list(arrival), prompt_tokens=list(prompt), output_tokens=list(output)
    )
    instance = paceline.Instance(cost=paceline.Affine(step_s=1.0), num_blocks=blocks + 1, block_tokens=1)
    result = paceline.replay(trace, paceline.Cluster([instance] * instances), policy)
    return result


def test_pools_stay_as_they_are_while_there_is_room() -> None:
    policy = policies.splitwise(prompt=1, token=1)
    rows = replayed(policy, [(0.0, 10, 3), (0.5, 10, 3)], instances=2, blocks=1000)
    assert rows.requests["instance"].to_list() == [0, 0]
    assert rows.requests["last_instance"].to_list() == [1, 1]
    assert rows.flips.height == 0


def test_the_rules_survive_toml() -> None:
    for policy in (
        policies.splitwise(prompt=3, token=2, most_pending_tokens=100),
        policies.splitwise_router("round_robin"),
        policies.splitwise_router("token_jsq", prompt=1, token=2),
    ):
        assert Policy.from_toml(policy.to_toml()) == policy


def test_both_pools_must_be_given() -> None:
    with pytest.raises(PolicyError, match="prompt and token must both be given or both None, was 2 and None"):
        policies.splitwise_router(prompt=2)


def test_queues_are_compared_by_prompt_tokens_and_requests() -> None:
    policy = policies.splitwise_router("token_jsq")
    # The first prompt is queued on instance 0; the two short ones have fewer tokens together.
    result = replayed(policy, [(0.0, 100, 2), (0.0, 10, 2), (0.0, 10, 2)], instances=2, blocks=1000)
    assert result.requests["instance"].to_list() == [0, 1, 1]
    shortest = replayed(
        policies.splitwise_router("jsq"),
        [(0.0, 100, 2), (0.0, 10, 2), (0.0, 10, 2)],
        instances=2,
        blocks=1000,
    )
    assert shortest.requests["instance"].to_list() == [0, 1, 0]


def test_a_prompt_without_room_borrows_a_token_instance_until_it_is_idle() -> None:
    policy = policies.splitwise(prompt=1, token=2, most_pending_tokens=50)
    # At 0.5 s the prompt instance runs 40 tokens and has 40 in its queue; 40 more exceed 50.
    requests = [(0.0, 40, 2), (0.2, 40, 2), (0.5, 40, 2), (60.0, 40, 2)]
    result = replayed(policy, requests, instances=3, blocks=1000)
    assert result.requests["instance"].to_list() == [0, 0, 1, 0]
    changes = result.flips.select("instance", "from", "to").rows()
    assert changes == [
        (1, "token", "token→mixed_token"),
        (1, "token→mixed_token", "mixed_token"),
        (1, "mixed_token", "token"),
    ]
    assert result.flips["time_s"].to_list()[2] == 60.0, "it returns at the first arrival that finds it idle"


def test_tokens_without_room_borrow_a_prompt_instance() -> None:
    policy = policies.splitwise(prompt=2, token=1)
    # The token instance has 100 blocks: with 65 tokens there it has no room for 50 more.
    result = replayed(policy, [(0.0, 60, 20), (5.5, 40, 10)], instances=3, blocks=100)
    assert result.requests["last_instance"].to_list() == [2, 0]
    assert result.flips.select("instance", "from", "to").rows() == [(0, "prompt", "mixed_prompt")]


def test_distserve_keeps_the_blocks_of_a_prompt_until_they_are_read() -> None:
    policy = policies.distserve(prefill=1, decode=1)
    # The decode instance has room for one request at a time: it accepts the second as the first has finished.
    result = replayed(policy, [(0.0, 60, 11), (0.0, 30, 3), (0.0, 60, 2)], instances=2, blocks=90)
    rows = result.requests
    assert rows["first_token"].to_list()[:2] == [1.0, 1.0]
    assert rows["first_token"][2] > rows["first_token"][1]


ROUTERS = st.one_of(
    st.builds(
        policies.splitwise,
        prompt=st.sampled_from([1, 2]),
        token=st.sampled_from([1, 2]),
        most_pending_tokens=st.sampled_from([10, 40, 8192]),
    ),
    st.builds(
        policies.splitwise_router,
        st.sampled_from(["round_robin", "jsq", "token_jsq"]),
        prompt=st.just(2),
        token=st.sampled_from([1, 2]),
    ),
    st.builds(policies.distserve, prefill=st.sampled_from([1, 2]), decode=st.sampled_from([1, 2])),
)


@given(policy=ROUTERS, workload=workloads())
def test_replays_end_and_leaping_changes_nothing(policy: Policy, workload: dict[str, Any]) -> None:
    arrival, prompt, output = zip(*workload["requests"], strict=True)
    trace = paceline.Trace.from_columns(
        arrival=list(arrival), prompt_tokens=list(prompt), output_tokens=list(output)
    )
    cost = paceline.Affine(step_s=1.0, token_s=workload["token_s"])
    instance = paceline.Instance(
        cost=cost, num_blocks=workload["blocks"] * 2, block_tokens=workload["block_tokens"]
    )
    assert policy.pools is not None
    cluster = paceline.Cluster([instance] * sum(policy.pools.sizes.values()))
    leapt, stepped = (paceline.replay(trace, cluster, policy, leap=leap) for leap in (True, False))
    assert leapt.requests.equals(stepped.requests)
    assert leapt.flips.equals(stepped.flips)
    assert set(leapt.requests["status"]) <= {"finished", "rejected"}
