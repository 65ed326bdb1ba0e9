"""Hand-overs: blocks are conserved, no token is lost or made twice, and a request's times add up."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, reject
from hypothesis import strategies as st

from differential.engine import count
from differential.policies import HANDOVERS, WireCase, policies
from differential.test_policies import engine
from paceline.testing.reference.policy_sim import Cluster
from paceline.testing.reference.policy_sim.stuck import NoEnd, Stuck


@st.composite
def handed_over(draw: st.DrawFn) -> WireCase:
    """Draw a case in which requests that migrate are handed over."""
    case = draw(policies())
    return WireCase(requests=case.requests, config={**case.config, "handover": draw(HANDOVERS)})


@given(case=handed_over(), leap=st.booleans())
def test_blocks_tokens_and_times_are_conserved(case: WireCase, leap: bool) -> None:
    blocks_are_at_the_source_or_at_the_target(case)
    no_token_is_lost_or_made_twice(case, leap=leap)
    times_add_up_to_the_latency(case, leap=leap)


def blocks_are_at_the_source_or_at_the_target(case: WireCase) -> None:
    """Check the blocks at every moment of the reference; drop a case that does not end."""
    cluster = Cluster(case.config, case.requests, most_steps=3000)
    while cluster.unfinished:
        try:
            now = cluster.next_moment()
            cluster.pass_time(now)
            cluster.advance(now)
        except (Stuck, NoEnd):
            reject()
        for replica in cluster.replicas:
            state = replica.scheduler.state
            held = {block for one in replica.requests if one.memory == "gpu" for block in one.blocks}
            held |= {block for handover in replica.outgoing for block in handover.blocks}
            deferred = [one if isinstance(one, list) else one.blocks for one in state.deferred]
            held |= {block for blocks in deferred for block in blocks}
            held |= {
                block
                for move in cluster.traffic.moves
                if move.source == replica.index
                for block in move.blocks
            }
            assert len(held) == state.memory.pool.held
            incoming = state.incoming
            # The KV of a request is at one place until it is read, and its blocks are at two.
            sources = [handover for one in cluster.replicas for handover in one.outgoing]
            for request in incoming.on_the_way:
                (origin,) = [handover for handover in sources if handover.request is request]
                assert (origin.target, origin.tokens) == (replica.index, request.computed)


def no_token_is_lost_or_made_twice(case: WireCase, *, leap: bool) -> None:
    outcome = engine(case, leap=leap, record=False)
    stats: list[dict[str, Any]] = json.loads(outcome.stats)["instances"]
    finished = outcome.columns["status"] == 0
    wanted = [request.output_tokens for request in case.requests]
    assert [
        made for made, done in zip(outcome.columns["generated_tokens"], finished, strict=True) if done
    ] == [tokens for tokens, done in zip(wanted, finished, strict=True) if done]
    once = all(one["preemptions"] + one["swap_overflows"] + one["expired_offers"] == 0 for one in stats)
    if once and all(finished):
        computed = sum(one["prefill_tokens"] + one["decode_tokens"] for one in stats)
        assert computed == sum(request.prompt_tokens + request.output_tokens - 1 for request in case.requests)
    assert sum(one["sent"] for one in stats) == sum(one["landed"] + one["expired_offers"] for one in stats)


def times_add_up_to_the_latency(case: WireCase, *, leap: bool) -> None:
    """q1 + p1 + q2 + c + q3 + p2 + decode, in ticks; each part is counted by another rule of the engine."""
    outcome = engine(case, leap=leap, record=True)
    if len(outcome.columns["migrations"]) == 0:
        return
    starts: dict[int, list[int]] = {}
    logs = [json.loads(outcome.decisions(index)) for index in range(len(case.config["instances"]))]
    for record in (record for log in logs for record in log):
        for row, *_ in record["scheduled"]:
            starts.setdefault(row, []).append(record["start"])
    for row, request in enumerate(case.requests):
        if (
            outcome.columns["status"][row] != 0
            or outcome.columns["migrations"][row] != 1
            or count(outcome, "preemptions", row) != 0
        ):
            continue
        waited, received = (
            int(outcome.columns["handover_wait"][row]),
            int(outcome.columns["received_wait"][row]),
        )
        # No request was preempted at all, if there is no such column.
        preempted = int(outcome.columns["preempted"][row]) if len(outcome.columns["preempted"]) else 0
        first, finish = int(outcome.columns["first_token"][row]), int(outcome.columns["finish"][row])
        queueing = int(outcome.columns["scheduled"][row]) - request.arrival
        prefill = first - int(outcome.columns["scheduled"][row])
        transfer = int(outcome.columns["transfer"][row])
        assert 0 <= waited <= transfer
        if outcome.columns["first_decode"][row] == 0 or received != preempted:
            continue  # its offer was withdrawn, or its KV was not admitted at once
        second, wire = int(outcome.columns["first_decode"][row]), transfer - waited
        # When it was admitted on the target follows from the decisions alone.
        admitted = min(start for start in starts[row] if start >= first + transfer + received)
        before = sum(1 for start in starts[row] if first <= start < admitted)
        assert finish >= admitted + second
        if before == 0:
            assert admitted == first + waited + wire + received
            decode = finish - admitted - second
            total = queueing + prefill + waited + wire + received + second + decode
            assert total == finish - request.arrival
