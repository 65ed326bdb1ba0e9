"""The reference for policies against itself, and against the reference for vLLM where they must agree."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Any

from hypothesis import given, reject

from differential import wire
from differential.policies import WireCase, policies
from differential.strategies import Case, cases
from paceline.testing.reference import VllmV1Config, replay_cluster
from paceline.testing.reference.policy_sim import Outcome, TraceRequest, replay, split


def replayed(case: WireCase) -> Outcome:
    """Replay a case; drop those in which nobody ever gets anywhere."""
    try:
        return replay(case.config, case.requests, most_steps=3000)
    except RuntimeError:
        reject()


@given(case=policies())
def test_everybody_gets_all_tokens_and_leaves_nothing_behind(case: WireCase) -> None:
    outcome = replayed(case)
    for row, request in enumerate(outcome.requests):
        assert outcome.status(row) in ("finished", "rejected")
        if request.done:
            assert len(request.token_times) == request.spec.output_tokens
            assert request.token_times == sorted(set(request.token_times))
    for replica in outcome.replicas:
        scheduler = replica.scheduler
        assert [*replica.requests, *replica.leaving, *scheduler.queue, *scheduler.running] == []
        assert scheduler.memory.pool.held == scheduler.memory.cpu_pool.held == 0


@given(case=policies())
def test_latencies_split_into_parts_that_are_there(case: WireCase) -> None:
    for request in replayed(case).requests:
        if request.done:
            parts = split(request)
            assert min(part for part in astuple(parts) if part is not None) >= 0
            steps = {
                end - start for start, end in zip(request.token_starts, request.token_times, strict=True)
            }
            assert parts.executed >= min(steps)


@given(case=cases("vllm"))
def test_ranked_by_row_it_is_first_come_first_served(case: Case) -> None:
    """VLLM V1's victims, the latest admitted, are the last rows; and none comes back in its step."""
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
    """Whether in any step somebody gave way and somebody else came in."""
    running = [{row for row, *_ in step[1]} for step in steps]
    return any(
        step[2] and now - before for step, before, now in zip(steps[1:], running, running[1:], strict=False)
    )


def test_the_cases_reach_what_they_are_for() -> None:
    """Moves of all kinds, displacement, copies, demotion: all occur among the drawn cases."""
    seen = dict.fromkeys(
        ("finished", "preempted", "displaced", "copied", "overflowed", "moved", "queued", "unfinished"), 0
    )

    @given(case=policies())
    def look(case: WireCase) -> None:
        try:
            outcome = replay(case.config, case.requests, most_steps=3000)
        except RuntimeError:
            seen["unfinished"] += 1
            return
        steps = [row for replica in outcome.replicas for row in replica.steps]
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
