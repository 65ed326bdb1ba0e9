"""Policies as values: printed as one writes them, equal by structure, in TOML and back."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given

from paceline import policy as language
from paceline.errors import PolicyError
from paceline.objectives import SLO
from paceline.policy import Policy, Scheduler, first_of, inst, pick, req, stay
from unit.policy.drawn import POLICIES

NAMES: dict[str, Any] = {name: getattr(language, name) for name in language.__all__} | {"SLO": SLO}


@given(POLICIES)
def test_a_policy_is_printed_as_python_that_makes_it(policy: Policy) -> None:
    assert eval(repr(policy), dict(NAMES)) == policy


@given(POLICIES)
def test_a_policy_is_written_as_toml_that_reads_back_equal(policy: Policy) -> None:
    again = Policy.from_toml(policy.to_toml())
    assert again == policy
    assert again.to_toml() == policy.to_toml()
    assert again.to_wire(instances=3, tenants=["a tenant"]) == policy.to_wire(
        instances=3, tenants=["a tenant"]
    )


@given(POLICIES, POLICIES)
def test_policies_are_equal_where_they_say_the_same(left: Policy, right: Policy) -> None:
    assert left == right or repr(left) != repr(right)
    assert copy.deepcopy(left) == left == pickle.loads(pickle.dumps(left))
    assert hash(left) == hash(copy.deepcopy(left))
    assert len({left, copy.deepcopy(left)}) == 1
    assert left != "a policy"


@given(POLICIES)
def test_looking_at_the_oracle_is_told(policy: Policy) -> None:
    text = policy.to_toml()
    assert policy.uses_oracle == ("oracle." in text)
    assert policy.columns == {
        name
        for name in ("priority", "score", "tenant")
        if f"req.{name}" in text or (name == "score" and policy.scheduler.ranks and 'order = "score"' in text)
    }


def test_a_policy_is_shown_as_a_person_would_write_it() -> None:
    policy = Policy(
        name="mine",
        scheduler=Scheduler(order=req.score),
        on_arrival=first_of(pick(min=inst.kv_tokens, where=inst.waiting == 0), "fewest_requests"),
        on_answering=pick(min=[inst.requests, inst.kv_tokens]).unless(inst.here.fits(req)),
    )
    assert repr(policy) == (
        "Policy(name='mine', scheduler=Scheduler(order=req.score), "
        "on_arrival=first_of(pick(min=inst.kv_tokens, where=inst.waiting == 0), 'fewest_requests'), "
        "on_answering=pick(min=[inst.requests, inst.kv_tokens]).unless(inst.here.fits(req)))"
    )


def test_a_file_written_by_hand_is_read() -> None:
    policy = Policy.from_toml(
        '''
        name = "mine"
        on_arrival = "first_of(pick(min=inst.kv_tokens, where=inst.kv_usage < 0.9), pick(min=inst.requests))"
        on_answering = "stay(when=inst.here.fits(req))"

        [scheduler]
        order = ["req.priority", "req.prompt_tokens // 100"]
        admission = "displace"
        preemption = "swap"

        [[scheduler.classes]]
        name = "late"
        when = "req.waiting_time > 120"
        order = "req.arrival"

        [[every]]
        seconds = 0.5
        actions = ["""migrate(
            source=pick(max=inst.kv_usage),
            target=pick(min=inst.kv_usage),
            choose=pick(min=req.context_tokens),
        )"""]
        '''
    )
    assert repr(policy.scheduler.classes) == (
        "(Class('late', when=req.waiting_time > 120, order=req.arrival),)"
    )
    assert repr(policy.on_answering) == repr(stay(when=inst.here.fits(req)))
    assert [seconds for seconds, _ in policy.monitors] == [0.5]
    assert Policy.from_toml(policy.to_toml()) == policy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "a"\non_arrival = "pick(min=inst.kv_token)"', r"on_arrival: inst has no field 'kv_token'"),
        ('name = "a"\non_arrival = "exec(1)"', r"there is no 'exec'"),
        ('name = "a"\non_arrival = 3', r"on_arrival must be a string, was 3"),
        ('name = "a"\npools = 3', r"pools must be a table, was 3"),
        ('name = "a"\npace = {tpt = 1}', r"pace has no field 'tpt'; close to it: tpot"),
        ('name = "a"\nslo = {ttft = -1}', r"SLO\.ttft must be a positive, finite number"),
        ('name = "a"\nevery = [{seconds = 1}]', r"every must be tables with seconds and actions"),
        (
            'name = "a"\n[scheduler]\norder = "scor"',
            r"order must be a name, keys or a Quantum, was 'scor'; close to it: score",
        ),
        ('name = "a"\n[scheduler]\norder = "inst.requests"', r"order must not read inst\.requests"),
        (
            'name = "a"\n[scheduler]\nadmission = "push"',
            r"admission must be 'wait', 'displace' or a Displace, was 'push'",
        ),
        (
            'name = "a"\n[scheduler]\nclasses = [{name = "x", when = "req.running", whn = 1}]',
            r"has no field 'whn'",
        ),
        (
            'name = "a"\n[scheduler]\npreemption = {kind = "swp"}',
            r"kind of preemption must be one of recompute, swap, swap_over_pcie, was 'swp'",
        ),
    ],
)
def test_a_file_with_a_mistake_names_it(text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        Policy.from_toml(text)


def test_a_python_function_cannot_be_written_to_a_file() -> None:
    def mine(request: object, instances: object) -> int:
        return 0

    policy = Policy(name="mine", on_arrival=first_of(pick(min=inst.requests, where=inst.waiting == 0), mine))
    assert policy.calls == [mine]
    assert policy.to_wire(instances=1)["routing"]["on_arrival"]["rules"][1] == {"rule": "call", "index": 0}
    assert "mine)" in repr(policy)
    assert "0x" not in repr(policy)
    with pytest.raises(
        PolicyError, match=r"mine is a Python function, which TOML cannot hold; a rule made of"
    ):
        policy.to_toml()
