"""Gauges of monitors: timelines by hand, with steps of a second, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import paceline
from paceline.errors import PacelineError, PolicyError
from paceline.policy import (
    Gauge,
    Policy,
    Pools,
    Scheduler,
    cluster,
    flip,
    gauge,
    inst,
    pick,
    req,
    scale,
)

PEAK = gauge("peak", inst.requests, take="max", window_s=6.0)
SIZE = scale(cluster.max(inst.gauge("peak"), within="serving"), pool="serving", off="off")
BOTH = pytest.mark.parametrize("leap", [True, False])


def policy(*actions: object, **parts: Any) -> Policy:
    return Policy(
        name="gauged",
        pools=Pools(serving=1, off=2),
        on_arrival=parts.pop("on_arrival", pick(min=inst.index, within="serving")),
        every={2.0: list(actions)},
        **parts,
    )


def sizes(gauged: Policy, *, leap: bool = True) -> list[tuple[float, int]]:
    """Return when the size changed, and to how many. Three requests run until 3 s, and one from 11 s."""
    trace = paceline.Trace.from_columns(
        arrival=[0.0, 0.0, 0.0, 11.0], prompt_tokens=[1] * 4, output_tokens=[3, 3, 3, 2]
    )
    instance = paceline.Instance(cost=paceline.Affine(step_s=1.0), num_blocks=100)
    flips = paceline.replay(trace, paceline.Cluster(3 * [instance]), gauged, leap=leap).flips
    size, found = 1, {}
    for at, to in flips.select("time_s", "to").rows():
        size += 1 if to == "serving" else -1
        found[at] = size
    return list(found.items())


@BOTH
def test_a_peak_counts_until_it_is_as_old_as_the_window(leap: bool) -> None:
    """The three of 2 s are 4 s ago at 6 s, and 6 s at 8 s. Without a window there is none at 4 s.

    The request of 11 s is one, which the least size is for.
    """
    assert sizes(policy(PEAK, SIZE), leap=leap) == [(2.0, 3), (8.0, 1)]
    now = gauge("peak", inst.requests)
    assert sizes(policy(now, SIZE), leap=leap) == [(2.0, 3), (4.0, 1)]


@BOTH
def test_a_mean_is_of_the_runs_in_the_window(leap: bool) -> None:
    """3; (3 + 0) / 2, rounded up; none of the last 4 s."""
    mean = gauge("peak", inst.requests, take="mean", window_s=4.0)
    assert sizes(policy(mean, SIZE), leap=leap) == [(2.0, 3), (4.0, 2), (6.0, 1)]


@BOTH
def test_a_low_is_the_smallest_of_the_window(leap: bool) -> None:
    """Instance 0 has two free places of five until 3 s, and five then. At 8 s the two are 6 s ago."""
    low = gauge("peak", 5 - inst.requests, take="min", window_s=6.0)
    size = scale(cluster.min(inst.gauge("peak"), within="serving"), pool="serving", off="off")
    assert sizes(policy(low, size), leap=leap) == [(2.0, 2), (8.0, 3)]


def test_an_action_sees_the_latest_run_before_it() -> None:
    """The size is set before the gauge is read: 0 at first, and what was read 2 s ago from then on."""
    now = gauge("peak", inst.requests)
    assert sizes(policy(SIZE, now)) == [(4.0, 3), (6.0, 1)]


def test_an_instance_in_another_pool_has_no_values() -> None:
    """Instance 0 serves three requests until 3 s. The gauge is of the pool in which it is not."""
    assert sizes(policy(gauge("peak", inst.requests, within="off", window_s=6.0), SIZE)) == []


def test_migrations_and_flips_read_gauges() -> None:
    """Instance 0 had requests at 2 s and at 4 s, so at 4 s another one is flipped there."""
    busy = pick(min=inst.gauge("peak"), within="off", where=inst.index < 2)
    flipped = flip(busy, to="serving", when=cluster.max(inst.gauge("peak")) > 2)
    assert sizes(policy(flipped, gauge("peak", inst.requests, window_s=6.0)))[:1] == [(4.0, 2)]


def test_it_is_read_back() -> None:
    several = policy(
        gauge("peak", inst.kv_usage, take="max", window_s=60.0, within=["serving", "off"]),
        gauge("low", inst.waiting / 2, take="min"),
        scale(cluster.sum(inst.gauge("low") + inst.gauge("peak")), pool="serving", off="off"),
    )
    assert Policy.from_toml(several.to_toml()) == several
    assert pickle.loads(pickle.dumps(several)) == several
    assert repr(PEAK) == "gauge('peak', inst.requests, take='max', window_s=6.0)"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"of": req.age}, r"what gauge\(\) reads must not read req.age; a monitor reads instances alone"),
        ({"of": inst.requests > 1}, r"what gauge\(\) reads must be a number"),
        ({"window_s": -1.0}, r"window_s of gauge\(\) must be 0 or more seconds"),
        ({"take": "sum"}, "take"),
        ({"within": 3}, "within"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        gauge(**{"name": "peak", "of": inst.requests, **given})


def test_names_of_gauges_are_those_of_the_policy() -> None:
    with pytest.raises(PolicyError, match="there is no gauge 'peak'"):
        policy(SIZE)
    with pytest.raises(PolicyError, match="gauges must have names of their own, were two of 'peak'"):
        policy(PEAK, PEAK, SIZE)
    with pytest.raises(PolicyError, match="there is no pool 'of'"):
        policy(gauge("peak", inst.requests, within="of"), SIZE)


def test_only_monitors_read_gauges() -> None:
    with pytest.raises(PolicyError, match=r"only the actions of monitors see gauges"):
        policy(PEAK, on_arrival=pick(min=inst.gauge("peak")))
    with pytest.raises(PolicyError, match=r"inst.gauge\('peak'\): a router keeps it|only the actions"):
        policy(PEAK, scheduler=Scheduler(max_num_batched_tokens=inst.gauge("peak")))


def test_a_window_of_too_many_runs_is_refused() -> None:
    often: Gauge = gauge("peak", inst.requests, window_s=900_000.0)
    with pytest.raises(PacelineError, match="must run at most 100000 times within its longest window"):
        sizes(policy(often, SIZE))
