"""The simulator for policies against invariants, and against the references written after real code."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from differential import wire
from differential.compositions import Composed, compositions
from differential.engine import _instance as as_wire
from differential.policies import WireCase, policies
from differential.strategies import KINDS, Case, Kind, cases
from paceline.testing.reference import VllmV1Config, replay_cluster
from paceline.testing.reference.policy_sim import Outcome, TraceRequest, replay, split
from paceline.testing.reference.policy_sim.async_arrivals import end_decision


def replayed(case: WireCase) -> Outcome:
    """Replay a case; drop a case in which no request makes progress."""
    size = case.prefix_block_tokens if isinstance(case, Composed) else None
    try:
        return replay(case.config, case.requests, prefix_block_tokens=size, most_steps=3000)
    except RuntimeError:
        reject()


def ends_well(outcome: Outcome) -> None:
    """Check that every request got all its tokens, and that nothing is allocated or queued any more."""
    for row, request in enumerate(outcome.requests):
        assert outcome.status(row) in ("finished", "rejected")
        if request.done:
            assert len(request.token_times) == request.spec.output_tokens
            assert request.token_times == sorted(set(request.token_times))
    for replica in outcome.replicas:
        scheduler = replica.scheduler
        end_decision(scheduler.state)
        assert [*replica.requests, *replica.leaving, *scheduler.queue, *scheduler.running] == []
        assert scheduler.memory.pool.held == scheduler.memory.cpu_pool.held == 0


def splits(outcome: Outcome) -> None:
    """Check that latencies split into parts that hold every token's step."""
    for request in outcome.requests:
        if request.done:
            parts = split(request)
            assert min(part for part in astuple(parts) if part is not None) >= 0
            # The steps that yielded its tokens are part of it; those of cut prompts come on top.
            spans = zip(request.token_starts, request.token_times, strict=True)
            assert parts.executed >= sum(end - start for start, end in spans)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_given_a_schedulers_policy_it_is_that_scheduler(data: st.DataObject, kind: Kind) -> None:
    """Each scheduler's own code, followed line by line, against the composition that describes it."""
    case = data.draw(cases(kind))
    try:
        expected = replay_cluster(case.requests, case.instances, case.routing)
    except RuntimeError:
        reject()
    fleet = [as_wire(case, index) for index in range(len(case.instances))]
    requests = [TraceRequest(*astuple(request)) for request in case.requests]
    outcome = replay(wire.cluster(*fleet, on_arrival={"rule": case.routing}), requests)
    assert [one.token_times for one in outcome.requests] == [one.token_times for one in expected.sequences]
    assert outcome.rejected == expected.rejected
    assert outcome.instance == expected.instance
    assert [one.preemptions for one in outcome.requests] == [one.preemptions for one in expected.sequences]
    assert [one.hit_tokens for one in outcome.requests] == [one.hit_tokens for one in expected.sequences]
    for replica, instance in zip(outcome.replicas, expected.instances, strict=True):
        assert replica.usage == instance.usage
        assert [row[-1] for row in replica.steps] == [row[-1] for row in instance.steps]


@given(case=compositions())
def test_under_any_composition_every_request_gets_all_tokens(case: Composed) -> None:
    ends_well(replayed(case))


@given(case=compositions(moves=True))
def test_where_requests_move_every_request_gets_all_tokens(case: Composed) -> None:
    ends_well(replayed(case))


@given(case=cases("vllm"))
def test_ranked_by_row_it_is_first_come_first_served(case: Case) -> None:
    """VLLM V1 preempts the latest admitted request: the last row. None is resumed in the same step."""
    plain = []
    fleet = []
    for found, cost in case.instances:
        assert isinstance(found, VllmV1Config)
        config = replace(found, policy="fcfs", watermark=0.0, long_prefill_token_threshold=0)
        plain.append((config, cost))
        fleet.append(
            wire.instance(
                config.num_blocks - 1,
                block_tokens=config.block_size,
                max_model_len=config.max_model_len,
                step=cost.step,
                token=cost.token,
                kv_token=cost.kv_token,
                budget=config.max_num_batched_tokens,
                seats=config.max_num_seqs,
                allocation="chunk_if_all_fits" if config.reserve_full_prompt else "chunk",
            )
        )
    try:
        expected = replay_cluster(case.requests, plain, case.routing)
    except RuntimeError:
        reject()
    requests = [TraceRequest(*astuple(request)[:4]) for request in case.requests]
    outcome = replay(wire.cluster(*fleet, on_arrival={"rule": case.routing}), requests)
    assert [request.token_times for request in outcome.requests] == [
        one.token_times for one in expected.sequences
    ]
    for replica, instance in zip(outcome.replicas, expected.instances, strict=True):
        assert replica.usage == instance.usage
        assert [[row[0], row[1], sorted(row[2]), row[4]] for row in replica.steps] == instance.steps


def displaces(steps: list[list[Any]]) -> bool:
    """Whether in any step one request was preempted and another admitted."""
    running = [{row for row, *_ in step[1]} for step in steps]
    return any(
        step[2] and now - before for step, before, now in zip(steps[1:], running, running[1:], strict=False)
    )


def test_every_request_gets_all_tokens_and_its_latency_splits_into_parts() -> None:
    """Migrations, displacement, copies, swap overflows and queued transfers occur among the drawn cases."""
    seen = dict.fromkeys(
        ("finished", "preempted", "displaced", "copied", "overflowed", "moved", "queued", "unfinished"), 0
    )

    @settings(max_examples=max(40, settings.default.max_examples))
    @given(case=policies())
    def look(case: WireCase) -> None:
        try:
            outcome = replay(case.config, case.requests, most_steps=3000)
        except RuntimeError:
            seen["unfinished"] += 1
            return
        steps = [row for replica in outcome.replicas for row in replica.steps]
        ends_well(outcome)
        splits(outcome)
        seen["finished"] += any(request.done for request in outcome.requests)
        seen["preempted"] += any(request.preemptions for request in outcome.requests)
        seen["displaced"] += any(displaces(replica.steps) for replica in outcome.replicas)
        seen["copied"] += any(sum(row[3]) for row in steps)
        seen["overflowed"] += any(one.scheduler.memory.swap_overflows for one in outcome.replicas)
        seen["moved"] += any(request.transfers for request in outcome.requests)
        seen["queued"] += any(
            later.left < earlier.landed
            for request in outcome.requests
            for earlier in request.transfers
            for other in outcome.requests
            for later in other.transfers
            if earlier.left < later.left
        )

    look()
    assert min(count for name, count in seen.items() if name != "unfinished") >= 1, seen
    assert seen["unfinished"] <= seen["finished"] // 4, seen
