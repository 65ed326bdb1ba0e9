"""Flips, pools of leaving instances, and schedulers by pool: what is refused, and what the engine reads."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from paceline import SLO
from paceline.errors import PolicyError
from paceline.policy import (
    Class,
    Policy,
    Pools,
    Scheduler,
    cluster,
    fewest_requests,
    fewest_tokens,
    first_of,
    flip,
    inst,
    pick,
    req,
    round_robin,
    slo,
    stay,
)

LEAVING = {"a→b": inst.prefilling_requests == 0, "b→a": 30}
TWO = Pools(a=2, b=2, leaving=LEAVING)
LEAST = pick(min=inst.requests)
TO_B = flip(pick(min=inst.requests, within="a"), to="b")


def make(**fields: Any) -> Callable[[], object]:
    """Return what makes a policy of some fields, with two pools."""
    return lambda: Policy(**{"name": "mine", "pools": TWO, **fields})


def test_the_wire_has_the_codes_of_pools_and_the_ticks_of_delays() -> None:
    policy = Policy(
        name="mine",
        pools=TWO,
        on_arrival=first_of(TO_B.when(cluster.count(within="a->b") < 1), fewest_tokens(within=["a", "b→a"])),
        every={2.0: [flip(round_robin(within="b"), to="a", keep=0)]},
    )
    wire = policy.to_wire(instances=4, ticks_per_s=10)
    assert wire["roles"] == [0, 0, 1, 1]
    done = {"op": "eq", "args": [{"field": "inst.prefilling_requests"}, {"const": 0.0}]}
    assert wire["leaving"] == [
        {"role": 2, "from": 0, "to": 1, "done": done},
        {"role": 3, "from": 1, "to": 0, "delay": 300},
    ]
    first, second = wire["routing"]["on_arrival"]["rules"]
    assert (first["rule"], first["when"]["args"][0]["within"]) == ("when", [2])
    assert {**first["of"], "of": None} == {"rule": "flip", "of": None, "to": 1, "keep": 1}
    assert second == {"rule": "fewest_tokens", "within": [0, 3]}
    turns = {"rule": "round_robin", "within": [1]}
    assert wire["routing"]["every"][0]["actions"] == [
        {"action": "flip", "rule": {"rule": "flip", "of": turns, "to": 0, "keep": 0}}
    ]


@pytest.mark.parametrize(
    "rule",
    [
        TO_B,
        flip("round_robin", to="b", keep=3),
        flip(
            first_of(pick(min=inst.requests, within="a"), round_robin()),
            to="b",
            when=slo.ttft < req.prompt_tokens,
        ),
        first_of(
            TO_B.when(cluster.count() > 1), fewest_requests(within=["a", "b"]).when(cluster.count() > 2)
        ),
        flip(LEAST.unless(inst.there.requests > 3), to="b"),
    ],
)
def test_a_rule_that_flips_is_read_back_from_toml(rule: Any) -> None:
    policy = Policy(name="mine", pools=TWO, on_arrival=first_of(rule, LEAST), slo=SLO(ttft=1.0))
    assert Policy.from_toml(policy.to_toml()) == policy


def test_schedulers_by_pool_are_read_back_from_toml() -> None:
    several = {"a": Scheduler(max_num_seqs=8), "b": Scheduler(max_num_seqs=64)}
    policy = Policy(name="mine", pools=TWO, scheduler=several)
    again = Policy.from_toml(policy.to_toml())
    assert again == policy
    assert [again.scheduler_of(index).max_num_seqs for index in range(4)] == [8, 8, 64, 64]


def test_pools_can_be_copied_and_differ_by_what_holds_instances_up() -> None:
    assert pickle.loads(pickle.dumps(TWO)) == copy.deepcopy(TWO) == TWO
    assert hash(TWO) == hash(copy.copy(TWO))
    assert Pools(a=2, b=2, leaving={"a->b": inst.prefilling_requests == 0, "b->a": 30.0}) == TWO
    assert Pools(a=2, b=2, leaving={**LEAVING, "b→a": 31}) != TWO != Pools(a=2, b=2)


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: Pools(a=1, leaving={"a→c": 1}), r"names such as 'a→b' of two of its pools \(a\), was 'a→c'"),
        (lambda: Pools(a=1, b=1, leaving={"ab": 1}), r"of two of its pools \(a, b\), was 'ab'"),
        (
            lambda: Pools(a=1, b=1, leaving={"a→b": -1}),
            r"leaving\['a→b'\] of Pools must be 0 or more seconds",
        ),
        (lambda: Pools(a=1, b=1, leaving={"a→b": inst.requests}), r"must be a condition, was inst\.requests"),
        (
            lambda: Pools(a=1, b=1, leaving={"a→b": inst.kv_usage == 0}),
            r"must read only fields that change with the requests of the instance \(prefilling_requests, ",
        ),
        (
            lambda: Pools(a=1, b=1, leaving={"a→b": req.prompt_tokens > 1}),
            r"must not read req\.prompt_tokens",
        ),
        (lambda: Pools(a=1, b=1, leaving={"a→b": cluster.count() > 1}), r"must not read the cluster"),
        (lambda: flip(TO_B, to="a"), r"the rule of flip\(\) must not flip itself"),
        (lambda: flip(LEAST, to="b", keep=-1), r"keep of flip\(\) must be a whole number of at least 0"),
        (make(on_arrival=first_of(flip(LEAST, to="c"), LEAST)), r"there is no pool 'c'"),
        (
            make(on_arrival=first_of(flip(LEAST, to="a→b"), LEAST)),
            r"to of flip\(\) must be the pool that instances are to join",
        ),
        (make(on_arrival=TO_B), r"on_arrival must always pick an instance, but flip\("),
        (make(on_arrival=LEAST.when(cluster.count() > 1)), r"on_arrival must always pick an instance"),
        (make(on_arrival=first_of(TO_B, round_robin(within="a"))), r"its pools may be empty"),
        (make(on_arrival=first_of(flip(LEAST, to="b", keep=0), round_robin(within="a"))), r"may be empty"),
        (
            make(on_prefilled=TO_B.unless(inst.there.requests > 1)),
            r"unless\(\) in on_prefilled must not follow",
        ),
        (
            make(every={1: [LEAST]}),
            r"every must have lists of migrate\(\), flip\(\), scale\(\) and gauge\(\), was pick\(",
        ),
        (make(every={1: [flip(stay(), to="b")]}), r"a monitor has no request, was stay\(\)"),
        (make(every={1: [TO_B.when(req.prompt_tokens > 1)]}), r"a monitor has no request, and no instance"),
        (
            make(every={1: [flip(pick(min=inst.prefill_time(req)), to="b")]}),
            r"must not read inst\.prefill_time",
        ),
        (make(pools=Pools(a=2, off=0)), r"pool 'off' must have an instance, or a flip\(\.\.\., to='off'\)"),
        (
            make(scheduler={"a": Scheduler()}),
            r"one for each pool that has instances at the start \(a, b\), had a",
        ),
        (make(pools=None, scheduler={"a": Scheduler()}), r"none: the policy has no pools\), had a"),
        (
            make(
                scheduler={"a": Scheduler(max_num_seqs=1), "b": Scheduler(max_num_seqs=2)},
                on_prefilled=TO_B,
            ),
            r"must be between pools with equal schedulers, .* those of a and b differ",
        ),
        (
            make(
                pools=Pools(a=1, b=1, spare=0),
                scheduler={"a": Scheduler(max_num_seqs=1), "b": Scheduler(max_num_seqs=2)},
                on_prefilled=first_of(
                    flip(round_robin(within="a"), to="spare"), flip(round_robin(within="spare"), to="b")
                ),
            ),
            r"must be between pools with equal schedulers, .* those of a and b differ",
        ),
        (
            make(
                scheduler={
                    "a": Scheduler(order=(req.prompt_tokens,), classes=(Class("x", when=req.running),)),
                    "b": Scheduler(),
                },
                on_prefilled=pick(min=inst.requests_in("x")),
            ),
            r"inst\.requests_in\('x'\) needs schedulers with the same classes in every pool",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_built(attempt: Callable[[], object], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        attempt()


def test_a_pool_that_keeps_an_instance_may_be_the_last_alternative() -> None:
    """The instance that stays bound for pool b is in b, or on its way there."""
    bound = fewest_requests(within=["b", "a→b"])
    Policy(name="mine", pools=TWO, on_arrival=first_of(TO_B, bound))
    Policy(name="mine", pools=TWO, on_arrival=first_of(TO_B, round_robin(within="b"), bound))
    # No flip leads away from b, or to it, so that its instances stay.
    Policy(name="mine", pools=Pools(a=1, b=1, c=1), on_arrival=first_of(flip(round_robin(within="a"), to="c"),
                                                                       round_robin(within="b")))  # fmt: skip
