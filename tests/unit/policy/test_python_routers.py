"""Python routers: what is made for each replay, and state that outlives one."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

import paceline
from paceline.errors import PolicyError, RouterStateWarning
from paceline.policy import Policy, per_replay

TRACE = paceline.Trace.from_columns(arrival=[0, 1, 2], prompt_tokens=[8] * 3, output_tokens=[2] * 3)
CLUSTER = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.1), num_blocks=99)] * 2)


class InTurn:
    def __init__(self) -> None:
        self.decisions = 0

    def __call__(self, request: Any, instances: list[Any]) -> int:
        self.decisions += 1
        return (self.decisions - 1) % len(instances)


def in_turn() -> Callable[[Any, list[Any]], int]:
    decisions = [0]

    def router(request: Any, instances: list[Any]) -> int:
        decisions[0] += 1
        return (decisions[0] - 1) % len(instances)

    return router


def counted() -> Callable[[Any, list[Any]], int]:
    turn = count()
    return lambda request, instances: next(turn) % len(instances)


def last(request: Any, instances: list[Any]) -> int:
    return len(instances) - 1


def placed(policy: Policy) -> list[int]:
    return paceline.replay(TRACE, CLUSTER, policy).requests["instance"].to_list()


@pytest.mark.parametrize("rule", [InTurn, per_replay(InTurn), per_replay(in_turn), per_replay(counted), last])
def test_replays_of_what_is_made_anew_are_equal(rule: Any) -> None:
    policy = Policy(name="ours", on_arrival=rule)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wanted = [1, 1, 1] if rule is last else [0, 1, 0]
        assert [placed(policy), placed(policy), placed(policy)] == [wanted] * 3


@pytest.mark.parametrize("make", [InTurn, in_turn, counted, lambda: InTurn().__call__])
def test_state_that_a_replay_leaves_to_the_next_is_warned_of(make: Callable[[], Any]) -> None:
    policy = Policy(name="ours", on_arrival=make())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert placed(policy) == [0, 1, 0]
    with pytest.warns(RouterStateWarning, match=r"state that an earlier replay changed.* per_replay\(make\)"):
        assert placed(policy) == [1, 0, 1]


def test_state_that_is_set_between_replays_is_the_users_own() -> None:
    router = InTurn()
    policy = Policy(name="ours", on_arrival=router)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for start in (0, 0, 1):
            router.decisions = start
            assert placed(policy)[0] == start


def test_one_router_serves_all_rules_that_have_its_maker() -> None:
    maker = per_replay(in_turn)
    policy = Policy(name="ours", on_arrival=maker, on_prefilled=maker)
    # Each request asks twice: 0 and 1; its arrival goes to 0, and it migrates to 1.
    assert placed(policy) == [0, 0, 0]


def test_what_is_no_router_is_refused() -> None:
    with pytest.raises(PolicyError, match="on_arrival must be a rule"):
        Policy(name="ours", on_arrival=int)
    with pytest.raises(PolicyError, match="must be a function without arguments, was 3"):
        per_replay(3)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match=r"must return a function .*, returned 3"):
        placed(Policy(name="ours", on_arrival=per_replay(lambda: 3)))


def test_what_cannot_be_sent_or_written_is_said() -> None:
    local = Policy(name="ours", on_arrival=in_turn())
    with pytest.raises(PolicyError, match=r"router cannot be sent to another process: .* a class of"):
        pickle.dumps(local)
    with pytest.raises(PolicyError, match="InTurn is a Python function, which TOML cannot hold"):
        Policy(name="ours", on_arrival=InTurn).to_toml()
    assert copy.deepcopy(local) is local
    for rule in (last, InTurn, per_replay(InTurn)):
        again = pickle.loads(pickle.dumps(Policy(name="ours", on_arrival=rule)))
        assert placed(again) == placed(Policy(name="ours", on_arrival=rule))
