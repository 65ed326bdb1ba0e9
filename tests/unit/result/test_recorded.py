"""Recorded steps as columns: equal to the records, one by one, and bounded."""

from __future__ import annotations

import json

import pytest

import paceline
from paceline import Affine, Cluster, Instance, Links, Policy, Trace, _native, inst, replay
from paceline.errors import ConfigError
from paceline.policy import pick

# Eight blocks of 16 tokens: three requests do not fit, so that one is preempted.
TRACE = Trace.from_columns(arrival=[0.0, 0.0, 0.005], prompt_tokens=[20, 30, 10], output_tokens=[40, 40, 40])
CLUSTER = Cluster([Instance(cost=Affine(step_s=0.01), num_blocks=9)])


def test_steps_are_the_records_of_the_engine() -> None:
    policy = paceline.policies.vllm()
    result = replay(TRACE, CLUSTER, policy, record=(0.0, 100.0))
    wire = {**CLUSTER.instances[0].to_wire(max_num_batched_tokens=8192, max_num_seqs=1024)}
    defaults = CLUSTER.instances[0].default_batching()
    wire["scheduler"] = policy.scheduler.to_wire(num_blocks=9, defaults=defaults)
    columns = _native.columns(TRACE, policy)
    outcome = _native.run([wire], columns, routing="fewest_requests", record_decisions=True)
    records = json.loads(outcome.decisions(0))
    assert any(record["preempted"] for record in records)
    assert result.steps["requests"].to_list() == [[row for row, *_ in one["scheduled"]] for one in records]
    assert result.steps["tokens"].to_list() == [
        [tokens for _, tokens, *_ in one["scheduled"]] for one in records
    ]
    assert result.steps["preempted"].to_list() == [one["preempted"] for one in records]
    assert result.steps["start_s"].to_list() == [one["start"] / 10**12 for one in records]
    assert result.steps["kv_free_blocks"].to_list() == [one["free_blocks"] for one in records]
    decodes = [sum(part == "decode" for *_, part in one["scheduled"]) for one in records]
    assert result.steps["decodes"].to_list() == decodes


def test_an_instance_without_steps_has_none() -> None:
    policy = Policy(name="first", on_arrival=pick(min=inst.index))
    result = replay(TRACE, Cluster([CLUSTER.instances[0]] * 2), policy, record=(0.0, 100.0))
    assert result.steps["instance"].unique().to_list() == [0]
    assert result.transfers.height == 0


def test_a_transfer_is_a_row() -> None:
    policy = Policy(name="move", on_arrival=pick(min=inst.index), on_prefilled=pick(max=inst.index))
    one = Instance(cost=Affine(step_s=0.01), num_blocks=99, kv_bytes=10**6)
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[10], output_tokens=[3])
    cluster = Cluster([one, one], links=Links(gbps=8, latency_s=0.5))
    # Ten tokens of a megabyte over 8 Gb/s take 10 ms, from the end of the first step.
    rows = replay(trace, cluster, policy, record=(0.0, 100.0)).transfers.rows(named=True)
    assert rows == [
        {
            **{"request": 0, "source": 0, "target": 1, "kind": "accepted", "bytes": 10_000_000},
            **{"sent_s": 0.01, "first_byte_s": 0.01, "delivered_s": 0.52},
        }
    ]


@pytest.mark.parametrize("leap", [False, True])
def test_more_steps_than_there_is_room_for_are_refused(monkeypatch: pytest.MonkeyPatch, leap: bool) -> None:
    # Two requests in each step take three entries: 100 hold 33 steps, and the 34th starts at 0.33 s.
    trace = Trace.from_columns(arrival=[0.0, 0.0], prompt_tokens=[5, 5], output_tokens=[200, 200])
    cluster = Cluster([Instance(cost=Affine(step_s=0.01), num_blocks=99)])
    monkeypatch.setenv("PACELINE_LIMITS", "recorded=100")
    message = r"record: the steps take more than 100 entries, .* at 0\.33 s; end the window before, or raise"
    with pytest.raises(ConfigError, match=message):
        replay(trace, cluster, record=(0.0, 100.0), leap=leap)
    assert replay(trace, cluster, record=(0.0, 0.33), leap=leap).steps.height == 33
