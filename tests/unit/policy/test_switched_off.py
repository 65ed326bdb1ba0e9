"""Pools whose instances are switched off."""

from __future__ import annotations

import pickle

import pytest

from paceline.errors import PolicyError
from paceline.policies import autoscaled
from paceline.policy import Policy, Pools, fewest_requests, flip, inst, migrate, pick, req


def test_a_policy_keeps_what_is_switched_off() -> None:
    policy = autoscaled(serving=2, off=3)
    assert policy.pools is not None
    assert policy.pools.switched_off == ("off",)
    assert Policy.from_toml(policy.to_toml()) == policy
    assert pickle.loads(pickle.dumps(policy)) == policy
    plain = Pools(serving=2, off=3, leaving=policy.pools.leaving)
    assert plain != policy.pools
    assert "switched_off='off'" in repr(policy.pools)


@pytest.mark.parametrize("rule", ["fewest_requests", pick(min=inst.requests), fewest_requests(within="off")])
def test_no_rule_sends_requests_to_an_instance_that_is_off(rule: object) -> None:
    pools = Pools(serving=1, off=1, switched_off="off")
    with pytest.raises(PolicyError, match="on_arrival must not send requests to 'off'"):
        Policy(name="lost", pools=pools, on_arrival=rule)
    moves = migrate(
        source=pick(max=inst.requests, within="serving"),
        target=pick(min=inst.requests),
        choose=pick(min=req.arrival),
    )
    with pytest.raises(PolicyError, match=r"target of migrate\(\) must not send requests to 'off'"):
        Policy(name="lost", pools=pools, on_arrival=fewest_requests(within="serving"), every={1.0: [moves]})


def test_an_instance_is_switched_off_once_its_requests_have_ended() -> None:
    stop = flip(pick(min=inst.index, within="serving"), to="off", keep=1)
    serving = fewest_requests(within="serving")
    for leaving in (None, {"serving→off": 3.0}):
        pools = Pools(serving=2, off=1, switched_off="off", leaving=leaving)
        with pytest.raises(PolicyError, match="leaving of Pools must have 'serving→off' with a condition"):
            Policy(name="cut", pools=pools, on_arrival=serving, every={1.0: [stop]})


def test_a_pool_that_is_switched_off_is_one_of_them() -> None:
    with pytest.raises(PolicyError, match=r"switched_off of Pools must name pools of it \(serving\)"):
        Pools(serving=1, switched_off="off")
