"""Monitors in the engine: how instances are paired, and which of them are considered."""

from __future__ import annotations

import pytest

import paceline
from paceline.errors import PolicyError
from paceline.policy import Policy, Pools, inst, migrate, pick, req


def moved(pools: Pools, target: str) -> list[tuple[int, int]]:
    """Return the instances of requests before and after one run of a monitor over four instances.

    Of five requests that arrive at once, three are on the first instance and two on the second, in turn. Each
    prompt is one token longer than the one before it.
    """
    policy = Policy(
        name="relieve",
        pools=pools,
        on_arrival=pick(min=inst.requests, within="busy"),
        every={
            1.0: [
                migrate(
                    source=pick(max=inst.requests, within="busy"),
                    target=pick(min=inst.requests, within=target),
                    choose=pick(min=req.prompt_tokens),
                )
            ]
        },
    )
    trace = paceline.Trace.from_columns(
        arrival=[0.0] * 5, prompt_tokens=[8, 9, 10, 11, 12], output_tokens=[100] * 5
    )
    instance = paceline.Instance(cost=paceline.Affine(step_s=0.1), num_blocks=200)
    cluster = paceline.Cluster(4 * [instance], links=paceline.Links(gbps=100))
    result = paceline.replay(trace, cluster, policy, until=1.5)
    rows = result.requests.filter(result.requests["migrations"] > 0)
    return list(zip(rows["instance"], rows["last_instance"], strict=True))


def test_each_source_is_paired_with_a_target_of_its_own() -> None:
    """The first instance is paired with the first idle one, the second with the other: one request each."""
    assert moved(Pools(busy=2, idle=2), "idle") == [(0, 2), (1, 3)]


def test_only_instances_of_the_pool_are_considered() -> None:
    """With one idle instance, the busier source alone has a target; the third instance is of neither pool."""
    assert moved(Pools(busy=2, spare=1, idle=1), "idle") == [(0, 3)]


def test_a_pool_that_there_is_not_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"there is no pool 'idel'; close to it: idle"):
        moved(Pools(busy=2, idle=2), "idel")


def test_a_monitor_that_runs_too_often_for_the_trace_is_refused() -> None:
    policy = Policy(
        name="busy",
        on_arrival=pick(min=inst.requests),
        every={
            1e-9: [
                migrate(
                    source=pick(max=inst.requests),
                    target=pick(min=inst.requests),
                    choose=pick(min=req.prompt_tokens),
                )
            ]
        },
    )
    trace = paceline.Trace.from_columns(arrival=[0.0, 1e7], prompt_tokens=[8, 8], output_tokens=[4, 4])
    cluster = paceline.Cluster(2 * [paceline.Instance(cost=paceline.Affine(step_s=0.1), num_blocks=200)])
    rule = (
        r"period: must fit at most 1000000000 times into .* 10000000 s .* was 0\.000000001 s.* take 0\.01 s"
    )
    with pytest.raises(paceline.ConfigError, match=rule):
        paceline.replay(trace, cluster, policy)
