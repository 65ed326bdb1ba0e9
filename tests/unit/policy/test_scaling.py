"""Monitors that set the size of a pool: timelines by hand, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import paceline
from paceline.errors import PacelineError, PolicyError
from paceline.policy import (
    Policy,
    Pools,
    Scale,
    ScalingLimit,
    ScalingRules,
    cluster,
    fewest_requests,
    inst,
    pick,
    scale,
)

REQUESTS = cluster.sum(inst.requests, within="serving")
Change = tuple[float, int, str, str, str]


def policy(action: Scale, *, every: float, serving: int = 1, off: int = 2, start_s: float = 5.0) -> Policy:
    leaving = {"off→serving": start_s, "serving→off": inst.requests == 0}
    return Policy(
        name="sized",
        pools=Pools(serving=serving, off=off, leaving=leaving, switched_off="off"),
        on_arrival=fewest_requests(within=["serving", "off→serving"]),
        every={every: [action]},
    )


def replay(sized: Policy, arrivals: list[tuple[float, int]], *, leap: bool = True) -> paceline.Result:
    """Replay requests of these arrivals and output tokens, on instances whose steps take a second."""
    trace = paceline.Trace.from_columns(
        arrival=[at for at, _ in arrivals],
        prompt_tokens=[1] * len(arrivals),
        output_tokens=[tokens for _, tokens in arrivals],
    )
    assert sized.pools is not None
    instance = paceline.Instance(cost=paceline.Affine(step_s=1.0), num_blocks=100)
    return paceline.replay(
        trace, paceline.Cluster(sum(sized.pools.sizes.values()) * [instance]), sized, leap=leap
    )


def changes(result: paceline.Result) -> list[Change]:
    return result.flips.drop("request").rows()


def test_a_pool_grows_by_its_limit_and_shrinks_after_its_window() -> None:
    """Four requests run from 0 s to 25 s. Of four instances that are wanted, one is added in 10 s.

    At 30 s and at 40 s the four of 20 s are less than 25 s ago; at 50 s only the least size was.
    """
    slowly = ScalingRules(limits=[ScalingLimit(per_s=10.0, instances=1)])
    action = scale(REQUESTS, pool="serving", off="off", up=slowly, down=ScalingRules(window_s=25.0))
    sized = policy(action, every=10.0)
    result = replay(sized, [(0.0, 25)] * 4 + [(55.0, 1)])
    assert changes(result) == [
        (10.0, 1, "off", "off→serving", "every"),
        (15.0, 1, "off→serving", "serving", "delay"),
        (20.0, 2, "off", "off→serving", "every"),
        (25.0, 2, "off→serving", "serving", "delay"),
        (50.0, 2, "serving", "off", "every"),
        (50.0, 1, "serving", "off", "every"),
    ]
    assert changes(replay(sized, [(0.0, 25)] * 4 + [(55.0, 1)], leap=False)) == changes(result)


def test_an_instance_that_stops_ends_its_requests_and_gets_no_others() -> None:
    """Each of two instances has a request until 8 s. The third is for the one that stays."""
    action = scale(1, pool="serving", off="off", stop=pick(max=inst.index))
    result = replay(policy(action, every=3.0, serving=2, off=0), [(0.0, 8), (0.0, 8), (4.0, 8)])
    assert changes(result) == [
        (3.0, 1, "serving", "serving→off", "every"),
        (8.0, 1, "serving→off", "off", "condition"),
    ]
    assert result.requests["instance"].to_list() == [0, 1, 0]
    assert result.requests["finish"].to_list()[:2] == [8.0, 8.0]


def test_instances_that_start_are_the_first_to_stop() -> None:
    """Three requests run until 5 s. Two instances start at 3 s, to serve at 63 s; at 6 s they stop."""
    action = scale(REQUESTS, pool="serving", off="off")
    result = replay(policy(action, every=3.0, start_s=60.0), [(0.0, 5)] * 3 + [(7.0, 1)])
    assert changes(result) == [
        (3.0, 1, "off", "off→serving", "every"),
        (3.0, 2, "off", "off→serving", "every"),
        (6.0, 2, "off→serving", "off", "every"),
        (6.0, 1, "off→serving", "off", "every"),
    ]


def test_a_condition_keeps_the_size() -> None:
    settled = cluster.count(within="off→serving") == 0
    action = scale(REQUESTS, pool="serving", off="off", when=settled, up=ScalingRules(limits=[ONE]))
    result = replay(policy(action, every=3.0), [(0.0, 20)] * 3)
    # One instance starts from 3 s to 8 s, so nothing is decided at 6 s.
    assert [(row[0], row[1]) for row in changes(result) if row[4] == "every"] == [(3.0, 1), (9.0, 2)]


ONE = ScalingLimit(per_s=1.0, instances=1)


def test_it_is_read_back() -> None:
    action = scale(
        REQUESTS / 2,
        pool="serving",
        off="off",
        when=REQUESTS > 0,
        least=0,
        most=7,
        averaged_s=30.0,
        up=ScalingRules(limits=[ONE, ScalingLimit(per_s=15.0, percent=100)], select="least"),
        down=ScalingRules(window_s=300.0),
        start=pick(max=inst.index),
        stop=pick(min=inst.kv_tokens, where=inst.index > 0),
    )
    leaving = {"off→serving": 1.0, "serving→off": inst.requests == 0}
    sized = Policy(
        name="sized",
        pools=Pools(serving=1, off=2, always=1, leaving=leaving),
        on_arrival=fewest_requests(within="always"),
        every={1.0: [action]},
    )
    assert Policy.from_toml(sized.to_toml()) == sized
    assert pickle.loads(pickle.dumps(sized)) == sized


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"off": "serving"}, "off of scale.* must be another pool than 'serving'"),
        ({"least": -1}, "least of scale.* must be a whole number of at least 0"),
        ({"least": 3, "most": 2}, "most of scale.* must be a whole number of at least 3"),
        ({"averaged_s": -1.0}, "averaged_s of scale.* must be 0 or more seconds"),
        ({"when": inst.requests > 0}, r"when of scale.* a monitor has no request"),
        ({"start": pick(min=inst.index, within="off")}, "start of scale.* must be a pick"),
        ({"stop": "round_robin"}, "stop"),
        ({"up": 3}, "up"),
    ],
)
def test_what_makes_no_sense_is_refused(named: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        scale(REQUESTS, **{"pool": "serving", "off": "off", **named})


def test_amounts_of_limits_are_checked() -> None:
    with pytest.raises(PolicyError, match="one of instances and percent"):
        ScalingLimit(per_s=1.0)
    with pytest.raises(PolicyError, match="one of instances and percent"):
        ScalingLimit(per_s=1.0, instances=1, percent=1)
    with pytest.raises(PolicyError, match="amount of a ScalingLimit must be a whole number of at least 0"):
        ScalingLimit(per_s=1.0, percent=-1)
    with pytest.raises(PolicyError, match="limits of ScalingRules must be of ScalingLimit, was 3"):
        ScalingRules(limits=[3])  # type: ignore[list-item]


def test_pools_that_there_are_not_are_refused() -> None:
    with pytest.raises(PolicyError, match="there is no pool 'of'"):
        policy(scale(1, pool="serving", off="of"), every=1.0)
    with pytest.raises(PolicyError, match=r"to of flip.* must be the pool that instances are to join"):
        policy(scale(1, pool="off→serving", off="off"), every=1.0)
    with pytest.raises(PolicyError, match="off→serving"):
        policy(scale(1, pool="serving", off="off→serving"), every=1.0)


def test_an_instance_is_not_switched_off_with_requests() -> None:
    with pytest.raises(PolicyError, match="leaving of Pools must have 'serving→off' with a condition"):
        Policy(
            name="cut",
            pools=Pools(serving=2, off=1, switched_off="off"),
            on_arrival=fewest_requests(within="serving"),
            every={1.0: [scale(1, pool="serving", off="off")]},
        )


def test_an_arrival_always_finds_an_instance() -> None:
    with pytest.raises(PolicyError, match="on_arrival"):
        policy(scale(0, pool="serving", off="off", least=0), every=1.0)


def test_instances_change_their_pool_at_once_without_a_pool_for_their_way() -> None:
    """The two requests end at 3 s: two instances at 2 s, one at 4 s."""
    sized = Policy(
        name="sized",
        pools=Pools(serving=1, off=1),
        on_arrival=fewest_requests(within="serving"),
        every={2.0: [scale(REQUESTS, pool="serving", off="off")]},
    )
    assert changes(replay(sized, [(0.0, 3), (0.0, 3), (5.0, 1)])) == [
        (2.0, 1, "off", "serving", "every"),
        (4.0, 1, "serving", "off", "every"),
    ]


def test_a_window_of_too_many_runs_is_refused() -> None:
    action = scale(1, pool="serving", off="off", down=ScalingRules(window_s=900_000.0))
    with pytest.raises(PacelineError, match="must run at most 100000 times within its longest window"):
        replay(policy(action, every=1.0), [(0.0, 1)])
