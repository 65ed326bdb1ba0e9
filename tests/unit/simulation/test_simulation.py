"""A simulation gives the result of the replay of what was submitted; its events, state and pools."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

import polars as pl
import pytest

from paceline import (
    Affine,
    Cluster,
    Concurrency,
    ConfigError,
    Instance,
    Policy,
    PolicyError,
    Simulation,
    Trace,
    TraceError,
    inst,
    policies,
    replay,
    synthesize,
)
from paceline.policy import Pools, fewest_requests
from paceline.simulation import Event

COST = Affine(step_s=0.010, token_s=0.001)


def cluster(count: int = 1, blocks: int = 101) -> Cluster:
    return Cluster([Instance(cost=COST, num_blocks=blocks)] * count)


def in_batches(trace: Trace, simulation: Simulation, size: int) -> Simulation:
    """Submit a trace in batches, each when the one before has arrived."""
    frame = trace.frame
    for start in range(0, frame.height, size):
        simulation.submit(Trace(frame[start : start + size], prefix_block_tokens=trace.prefix_block_tokens))
        if start + size < frame.height:
            simulation.run_until(frame["arrival"][start + size])
        simulation.state()
        simulation.events()
    return simulation


def tenants_trace() -> Trace:
    trace = synthesize("azure-conv", requests=300, seed=3, rate=30.0)
    names = [("a", "b", "c")[row % 3] for row in range(300)]
    priority = [row % 4 - 2 for row in range(300)]
    columns = {"tenant": names, "priority": priority, "score": [row % 7 - 3.5 for row in range(300)]}
    return Trace(trace.frame.with_columns(**{name: pl.Series(values) for name, values in columns.items()}))


@pytest.mark.parametrize(
    ("policy", "columns"),
    [
        (policies.vllm(), ["tenant", "priority", "score"]),
        (policies.vllm(policy="priority"), ["tenant", "priority", "score"]),
        (policies.vtc(), ["tenant", "priority", "score"]),
        (policies.pars(), ["tenant", "priority", "score"]),
    ],
)
@pytest.mark.parametrize("leap", [True, False])
def test_the_result_is_that_of_the_replay(policy: Policy, columns: list[str], leap: bool) -> None:
    trace, served = tenants_trace(), cluster(2, 400)
    expected = replay(trace, served, policy, leap=leap)
    simulation = Simulation(served, policy, columns=columns, tenants=["c", "b", "a"], leap=leap)
    found = in_batches(trace, simulation, 70).result()
    assert found.requests.equals(expected.requests)
    assert found.totals() == expected.totals()
    assert found.provenance.trace_sha256 == expected.provenance.trace_sha256


def test_turns_of_sessions_find_the_turns_before() -> None:
    turns = [(0.0, "x", 40, 30), (0.0, "y", 40, 2), (5.0, "x", 100, 3), (6.0, "y", 20, 3), (9.0, "x", 60, 1)]
    arrival, session, prompt, output = zip(*turns, strict=True)
    trace = Trace.from_columns(arrival=arrival, session=session, prompt_tokens=prompt, output_tokens=output)
    policy = policies.vllm(prefix_caching=True)
    expected = replay(trace, cluster(), policy)
    simulation = in_batches(trace, Simulation(cluster(), policy, columns=["session"]), 1)
    found = simulation.result().requests
    # 4 of the 70 tokens before are in a block that is not full; a shorter prompt continues nothing.
    assert found["cached_tokens"].to_list() == [0, 0, 64, 0, 0]
    assert found.equals(expected.requests)


def test_prompts_that_share_ids_find_each_other() -> None:
    simulation = Simulation(
        cluster(), policies.vllm(prefix_caching=True), columns=["prefix"], prefix_block_tokens=16
    )
    row = {"prompt_tokens": 40, "output_tokens": 2, "prefix": [7, 8]}
    simulation.submit(row, at=0.0)
    simulation.submit(row | {"prefix": [7, 9]}, at=1.0)
    assert simulation.result().requests["cached_tokens"].to_list() == [0, 16]


def test_a_client_in_python_is_the_one_in_the_engine() -> None:
    trace = synthesize("azure-conv", requests=60, seed=5, rate=1000.0)
    frame = trace.frame.with_columns(arrival=pl.lit(0.0))
    expected = replay(Trace(frame), cluster(2, 400), clients=Concurrency(4, gap_s=0.25))
    simulation = Simulation(cluster(2, 400))
    left = deque(frame.iter_rows(named=True))

    def send(at: float) -> None:
        if left:
            simulation.submit(left.popleft(), at=at)

    for _ in range(4):
        send(0.0)
    while simulation.step() is not None:
        for event in simulation.events():
            if event.kind in ("finished", "rejected"):
                send(round(event.time + 0.25, 12))
    ours = simulation.result().requests
    assert ours.equals(expected.requests.sort("arrival", maintain_order=True))


def test_events_are_told_in_order_once() -> None:
    simulation = Simulation(cluster())
    assert list(simulation.submit([{"prompt_tokens": 10, "output_tokens": 2}] * 2, at=1.0)) == [0, 1]
    simulation.run_until(0.5)
    assert simulation.events() == []
    simulation.run_until(1.03)
    # A step of 10 + 20 ms with both prompts, and one of 10 + 2 ms.
    assert simulation.events() == [
        Event(1.0, "admitted", 0, 0),
        Event(1.0, "admitted", 1, 0),
        Event(1.03, "first_token", 0, 0),
        Event(1.03, "first_token", 1, 0),
    ]
    simulation.run_until(2.0)
    assert simulation.events_frame().rows() == [(1.042, "finished", 0, 0), (1.042, "finished", 1, 0)]
    assert simulation.step() is None


def test_a_request_that_never_fits_is_told_as_rejected() -> None:
    simulation = Simulation(cluster(blocks=3))
    simulation.submit({"prompt_tokens": 1000, "output_tokens": 2})
    assert simulation.step() == 0.0
    simulation.run_until(1.0)
    assert simulation.events() == [Event(0.0, "rejected", 0, None)]


def test_the_state_is_that_of_now() -> None:
    simulation = Simulation(cluster(2))
    simulation.submit([{"prompt_tokens": 10, "output_tokens": 5}] * 3, at=0.0)
    simulation.run_until(0.031)
    state = simulation.state()
    # Two on the first: a step of 30 ms; one on the second: of 20 ms, and then of 11.
    assert state["running"].to_list() == [2, 1]
    assert state["running_tokens"].to_list() == [22, 12]
    assert simulation.now == 0.031
    assert simulation.tokens().rows() == [(0, 0, 1), (1, 1, 2), (2, 0, 1)]


def scaled() -> Policy:
    pools = Pools(
        serving=1,
        off=1,
        leaving={"off→serving": 2.0, "serving→off": inst.requests == 0},
        switched_off="off",
    )
    return Policy(name="scaled", pools=pools, on_arrival=fewest_requests(within="serving"))


def test_instances_start_and_drain() -> None:
    simulation = Simulation(cluster(2), scaled())
    simulation.submit([{"prompt_tokens": 10, "output_tokens": 300}] * 2, at=0.0)
    simulation.run_until(0.5)
    assert simulation.set_pool(1, "serving")
    assert simulation.state()["pool"].to_list() == ["serving", "off→serving"]
    simulation.submit({"prompt_tokens": 10, "output_tokens": 1}, at=2.4)
    simulation.submit({"prompt_tokens": 10, "output_tokens": 1}, at=2.6)
    simulation.run_until(2.5)
    assert simulation.state()["pool"].to_list() == ["serving", "serving"]
    assert simulation.set_pool(0, "off")
    result = simulation.result()
    assert result.requests["instance"].to_list() == [0, 0, 0, 1]
    rows = result.flips.select("time_s", "instance", "from", "to", "cause").rows()
    last = max(result.requests["finish"][:3])
    # The first drains: its requests end a second after it was told to stop.
    assert last > 3.5
    assert rows == [
        (0.5, 1, "off", "off→serving", "set_pool"),
        (2.5, 1, "off→serving", "serving", "delay"),
        (2.5, 0, "serving", "serving→off", "set_pool"),
        (last, 0, "serving→off", "off", "condition"),
    ]


@pytest.mark.parametrize(
    ("requests", "at", "rule"),
    [
        ({"prompt_tokens": 10, "output_tokens": 0}, None, "output_tokens must be at least 1"),
        (
            {"prompt_tokens": 10, "output_tokens": 1},
            0.5,
            "arrival must be 1.0 s, where the simul",
        ),
        ({"prompt_tokens": 10, "output_tokens": 1, "tenant": "a"}, None, "tenant must be left out, as the"),
        ({"prompt_tokens": 10}, None, "missing output_tokens"),
        ({"prompt_tokens": 10, "output_tokens": 1}, -1.0, "at must be 0 or more seconds, was -1.0"),
        (
            {"prompt_tokens": 10, "output_tokens": 1, "session": "a", "think_time": 1.0},
            None,
            "think_time: a request that is submitted is sent at its arrival",
        ),
    ],
)
def test_a_request_that_breaks_a_rule_is_refused(requests: Any, at: float | None, rule: str) -> None:
    simulation = Simulation(cluster())
    simulation.run_until(1.0)
    with pytest.raises(TraceError, match=re.escape(rule)):
        simulation.submit(requests, at=at)
    assert simulation.submit({"prompt_tokens": 10, "output_tokens": 1}) == range(1)
    assert simulation.result().requests["arrival"].to_list() == [1.0]


def test_misuse_is_refused() -> None:
    with pytest.raises(ConfigError, match="columns must be of reasoning_tokens, priority"):
        Simulation(cluster(), columns=["colour"])
    with pytest.raises(ConfigError, match="prefix_block_tokens must be given with the column prefix"):
        Simulation(cluster(), columns=["prefix"])
    with pytest.raises(ConfigError, match="sample must be seconds as a float"):
        Simulation(cluster(), sample=100)
    with pytest.raises(PolicyError, match="needs a trace with the column priority"):
        Simulation(cluster(), policies.vllm(policy="priority"))
    simulation = Simulation(cluster())
    with pytest.raises(PolicyError, match=r"pool must be one of the policy \(none\), was 'off'"):
        simulation.set_pool(0, "off")
    with pytest.raises(TraceError, match="must have at least one request, had none"):
        simulation.result()


def test_a_simulation_that_has_ended_says_so() -> None:
    simulation = Simulation(cluster())
    simulation.submit({"prompt_tokens": 10, "output_tokens": 1})
    simulation.result()
    with pytest.raises(RuntimeError, match="the simulation has ended"):
        simulation.step()


def test_moments_after_hours_are_those_of_the_clock() -> None:
    simulation = Simulation(cluster())
    simulation.submit({"prompt_tokens": 7, "output_tokens": 3}, at=100_000.000_000_1)
    while simulation.step() is not None:
        for event in simulation.events():
            if event.kind == "finished" and event.request < 20:
                simulation.submit({"prompt_tokens": 7, "output_tokens": 3}, at=simulation.now)
    trace = simulation.trace()
    assert len(trace) == 21
    assert simulation.result().requests.equals(replay(trace, cluster()).requests)
