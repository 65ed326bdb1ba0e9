"""Flips and roles over time in a result: a replay worked out by hand, saved and loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline import Affine, Cluster, Instance, Result, Trace, load_result, replay
from paceline.policy import Policy, Pools, Scheduler, cluster, first_of, flip, inst, pick, round_robin

TWO = Cluster([Instance(cost=Affine(step_s=1.0, token_s=0.0), num_blocks=101)] * 2)
TRACE = Trace.from_columns(arrival=[0.0, 0.5], prompt_tokens=[20, 10], output_tokens=[3, 1])


def flipped(*, leap: bool = True) -> Result:
    """Instance 0 prefills request 0 until 1.0; request 1 flips it at 0.5, and is prefilled until 2.0."""
    rule = flip(pick(min=inst.index, within="a"), to="b", keep=0)
    policy = Policy(
        name="flipping",
        pools=Pools(a=1, b=1, leaving={"a→b": inst.prefilling_requests == 0}),
        on_arrival=first_of(rule.when(cluster.sum(inst.requests) > 0), pick(min=inst.index)),
    )
    return replay(TRACE, TWO, policy, leap=leap)


@pytest.mark.parametrize("leap", [True, False])
def test_a_result_has_the_flips_and_the_roles_over_time(leap: bool) -> None:
    result = flipped(leap=leap)
    assert result.flips.columns == ["time_s", "instance", "from", "to", "cause", "request"]
    assert result.flips.rows() == [
        (0.5, 0, "a", "a→b", "on_arrival", 1),
        (2.0, 0, "a→b", "b", "condition", None),
    ]
    # Request 0 ends its third step at 3.0.
    assert result.roles.rows() == [
        (0, "a", 0.0, 0.5),
        (0, "a→b", 0.5, 2.0),
        (0, "b", 2.0, 3.0),
        (1, "b", 0.0, 3.0),
    ]
    assert result.totals().instance_s == {"a": 0.5, "b": 4.0, "a→b": 1.5}


def test_flips_and_roles_are_saved(tmp_path: Path) -> None:
    result = flipped()
    again = load_result(result.save(tmp_path / "result"))
    assert again == result
    assert again.flips.equals(result.flips)
    assert again.roles.equals(result.roles)
    assert again.totals().instance_s == result.totals().instance_s


def test_without_pools_there_are_no_roles() -> None:
    result = replay(TRACE, TWO)
    assert (result.flips.height, result.roles.height, result.totals().instance_s) == (0, 0, {})


def test_an_instance_keeps_the_scheduler_of_its_first_pool() -> None:
    """Three requests arrive on each instance: pool a runs one at a time, pool b all three."""
    trace = Trace.from_columns(arrival=[0.0] * 6, prompt_tokens=[10] * 6, output_tokens=[1] * 6)
    several = {"a": Scheduler(max_num_seqs=1), "b": Scheduler(max_num_seqs=8)}
    policy = Policy(
        name="two", pools=Pools(a=1, b=1), scheduler=several, on_arrival=round_robin(within=["a", "b"])
    )
    finish = replay(trace, TWO, policy).requests.get_column("finish").to_list()
    assert (finish[::2], finish[1::2]) == ([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])


def test_an_instance_starts_after_a_delay() -> None:
    """A request waits at 2.0, so instance 1 is started, and takes the arrival at 5.0; not the one at 4.5."""
    start = flip(pick(min=inst.index, within="off"), to="on", keep=0).when(cluster.sum(inst.waiting) > 0)
    policy = Policy(
        name="starting",
        scheduler=Scheduler(max_num_seqs=1),
        pools=Pools(on=1, off=1, leaving={"off→on": 3.0}),
        on_arrival=pick(min=inst.requests, within="on"),
        every={2.0: [start]},
    )
    trace = Trace.from_columns(arrival=[0, 0.5, 4.5, 5.0], prompt_tokens=[9] * 4, output_tokens=[9, 3, 3, 3])
    result = replay(trace, TWO, policy)
    assert result.flips.rows()[:2] == [
        (2.0, 1, "off", "off→on", "every", None),
        (5.0, 1, "off→on", "on", "delay", None),
    ]
    assert result.requests.get_column("instance").to_list() == [0, 0, 0, 1]
