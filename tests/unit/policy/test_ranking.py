"""Ranked orders: what is refused when they are built, and their wire form."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from paceline import Affine, Instance
from paceline.errors import ConfigError, PolicyError
from paceline.policy import (
    Admit,
    Class,
    Displace,
    Quantum,
    Refresh,
    Running,
    Scheduler,
    Swap,
    SwapIn,
    cluster,
    ilog2,
    inst,
    minimum,
    oracle,
    req,
    slo,
)
from paceline.policy.expressions.tree import Expr
from paceline.policy.expressions.wire import Names


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (
            lambda: Scheduler(order=inst.requests),
            r"order must not read inst\.requests; a queue ranks requests: use req and oracle",
        ),
        (lambda: Scheduler(order=cluster.max(inst.requests)), r"order must not read the cluster"),
        (
            lambda: Scheduler(order=inst.here.fits(req)),
            r"order must be a number, was inst\.here\.fits\(req\)",
        ),
        (lambda: Scheduler(order=req.phase), r"order must be a number, was req\.phase \(a phase\)"),
        (lambda: Scheduler(order=[req.score] * 4), r"order must be 1 to 3 keys, were 4"),
        (lambda: Scheduler(order=[]), r"order must be 1 to 3 keys, were 0"),
        (lambda: Scheduler(order="scores"), r"order must be a name, keys .*was 'scores'; close to it: score"),
        (lambda: Scheduler(order=req.quanta), r"req\.quanta needs a Quantum somewhere in the order"),
        (
            lambda: Class("x", when=req.kv_tokens),
            r"when of Class 'x' must be a condition, was req\.kv_tokens",
        ),
        (lambda: Class("x", when=inst.waiting > 1), r"when of Class 'x' must not read inst\.waiting"),
        (lambda: Class("x", hold=-1), r"hold of Class 'x' must be a whole number of at least 0, was -1"),
        (lambda: Class(""), r"name of a Class must be a string that is not empty, was ''"),
        (lambda: Quantum(0), r"tokens of a Quantum must be a whole number of at least 1, was 0"),
        (lambda: Quantum(5, then=(req.score,) * 3), r"then of a Quantum must be at most 2 keys, were 3"),
        (lambda: Refresh(), r"a Refresh must have steps or seconds, had neither"),
        (lambda: Refresh(seconds=0), r"seconds of a Refresh must be 1e-09 or more seconds .*was 0"),
        (lambda: Displace(most=0), r"most of a Displace must be a whole number of at least 1, was 0"),
        (lambda: Displace(when=req.running), r"when of a Displace must not read req\.running; .*use inst"),
        (lambda: Displace(when=inst.fits(req)), r"when of a Displace must not read inst\.fits\(req\)"),
        (
            lambda: Scheduler(admission="push"),
            r"admission must be 'wait', 'displace' or a Displace, was 'push'",
        ),
        (
            lambda: Scheduler(preemption="drop"),
            r"preemption must be Recompute\(\), a Swap or 'swap', was 'drop'",
        ),
        (lambda: Scheduler(classes=["x"]), r"classes must be Class\(\.\.\.\), was 'x'"),
        (
            lambda: Scheduler(classes=[Class("x", when=req.running), Class("x")]),
            r"classes must have different names, was 'x' twice",
        ),
        (
            lambda: Scheduler(classes=[Class("x"), Class("y")]),
            r"only the last of classes may have no condition: Class\('x'\) takes every request",
        ),
        (
            lambda: Scheduler(classes=[Class("x", order=Quantum(5))], order=Quantum(6)),
            r"classes must have the same Quantum, were \[5, 6\] tokens",
        ),
        (
            lambda: Scheduler(order=req.score, stages=(Running(), SwapIn(), Admit())),
            r"stages must have no SwapIn\(\) where the order ranks requests",
        ),
        (
            lambda: Scheduler(order=req.score, victim="worst"),
            r"victim must be left out where the order ranks",
        ),
    ],
)
def test_what_a_queue_cannot_do_is_refused(attempt: Callable[[], object], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        attempt()


DRIFTS = [
    req.age,
    req.waiting_time,
    req.idle_steps,
    req.attained_time,
    req.slack,
    req.kv_tokens,
    req.blocks,
    req.generated_tokens + req.prompt_tokens,
    -req.context_tokens,
    minimum(req.age, 5),
    oracle.remaining_tokens,
    req.age // req.preemptions,
    5 // req.age,
]
STEADY = [
    req.arrival,
    req.score,
    req.joined,
    req.preemptions,
    req.age // 10,
    req.age // slo.ttft,
    ilog2(req.generated_tokens),
    oracle.output_tokens,
    req.prefill_time * 2,
]


@pytest.mark.parametrize("key", DRIFTS, ids=repr)
def test_a_key_that_drifts_needs_a_refresh_interval(key: Expr) -> None:
    with pytest.raises(
        PolicyError, match=r"drifts. Give refresh=Refresh\(steps=\.\.\.\) or Refresh\(seconds"
    ):
        Scheduler(order=[key, Quantum(5).keys[1]])
    assert Scheduler(order=key, refresh=Refresh(steps=1)).ranks
    # A comparison needs none: the moment at which it changes is known ahead.
    assert Scheduler(classes=[Class("x", when=key > 3), Class("rest")]).ranks


@pytest.mark.parametrize("key", STEADY, ids=repr)
def test_a_key_that_changes_in_steps_needs_no_refresh(key: Expr) -> None:
    assert Scheduler(order=key).ranks


def test_the_wire_of_a_ranked_queue_is_that_of_the_contract() -> None:
    scheduler = Scheduler(
        classes=[
            Class("starving", when=req.waiting_time > 120, hold=10, order=req.arrival),
            Class("reasoning", when=(req.phase != "answering") & (req.kv_tokens <= 5000)),
        ],
        order=Quantum(500),
        refresh=Refresh(steps=4, seconds=0.5),
        admission=Displace(when=inst.kv_usage >= 0.9, most=2),
    )
    wire = scheduler.to_wire(num_blocks=100, defaults=(1, 1))
    turns = [{"field": "req.quanta"}, {"field": "req.joined_s"}]
    assert wire["order"] == {
        "kind": "ranked",
        "classes": [
            {
                "when": {"op": "gt", "args": [{"field": "req.waiting_s"}, {"const": 120.0}]},
                "hold": 10,
                "hold_steps": 0,
                "keys": [{"field": "req.arrival_s"}],
            },
            {
                "when": {
                    "op": "and",
                    "args": [
                        {"op": "ne", "args": [{"field": "req.phase"}, {"const": 2.0}]},
                        {"op": "le", "args": [{"field": "req.kv_tokens"}, {"const": 5000.0}]},
                    ],
                },
                "hold": 0,
                "hold_steps": 0,
                "keys": turns,
            },
            {"when": None, "hold": 0, "hold_steps": 0, "keys": turns},  # requests in neither class
        ],
        "quantum": 500,
        "levels": None,
        "refresh": {"steps": 4, "ticks": 500_000_000_000},
    }
    assert wire["admission"] == {
        "kind": "displace",
        "when": {"op": "ge", "args": [{"field": "inst.kv_usage"}, {"const": 0.9}]},
        "most": 2,
    }


def test_orders_by_name_stay_as_they_were_until_something_ranks() -> None:
    assert Scheduler(order="score").to_wire(num_blocks=1, defaults=(1, 1))["order"] == {"kind": "priority"}
    assert Scheduler().to_wire(num_blocks=1, defaults=(1, 1))["admission"] == {"kind": "wait"}
    ranked = Scheduler(order="score", admission="displace").to_wire(num_blocks=1, defaults=(1, 1))
    assert ranked["order"] == {
        "kind": "ranked",
        "classes": [{"when": None, "hold": 0, "hold_steps": 0, "keys": [{"field": "req.score"}]}],
        "quantum": 0,
        "levels": None,
        "refresh": {"steps": 0, "ticks": 0},
    }
    assert ranked["admission"] == {"kind": "displace", "when": None, "most": 0}


def test_objectives_are_numbers_by_the_time_the_engine_sees_them() -> None:
    order = Scheduler(order=req.age // slo.ttft).to_wire(
        num_blocks=1, defaults=(1, 1), names=Names(bounds={"ttft": 2.0})
    )["order"]
    assert isinstance(order, dict)
    assert order["classes"][0]["keys"] == [
        {"op": "floordiv", "args": [{"field": "req.age_s"}, {"const": 2.0}]}
    ]


def test_a_swap_over_pcie_follows_from_the_instance() -> None:
    scheduler = Scheduler(order=req.score, preemption=Swap.over_pcie(cpu_gib=8))
    with pytest.raises(PolicyError, match=r"depends on the instance: use scheduler\.on\(instance\)"):
        scheduler.to_wire(num_blocks=1, defaults=(1, 1))
    # 8 KV heads of 128 numbers, keys and values, 32 layers, 2 bytes: 128 KiB a token, half of it a GPU.
    halves = Instance(model="llama-3.1-8b", gpu="a100-80gb", tensor_parallel=2, block_tokens=16)
    swap = scheduler.on(halves).preemption
    assert swap == Swap(cpu_blocks=8 * 2**30 // 2**20, out_s=2**20 / 32e9, in_s=2**20 / 32e9)
    assert Scheduler(order=req.score, preemption="swap").on(halves).preemption == Swap.over_pcie().on(halves)
    with pytest.raises(
        ConfigError, match=r"needs an Instance with a gpu and a model; a Swap with cpu_blocks"
    ):
        scheduler.on(Instance(cost=Affine(step_s=1.0), num_blocks=9))
