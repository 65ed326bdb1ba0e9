"""Splitwise' router: which instance has the prompt, which has the tokens, and which change pools."""

from __future__ import annotations

import pytest

import paceline
from paceline import policies
from paceline.errors import PolicyError
from paceline.policy import Policy
from paceline.result import Result
from paceline.testing import check


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
    check(result)
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
