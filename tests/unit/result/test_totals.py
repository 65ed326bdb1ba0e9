"""Counts, rates and means over a whole replay."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from paceline.policy import Policy, Scheduler
from paceline.result import Result
from paceline.trace.model import Trace
from unit.result.fakes import (
    NOT_ARRIVED,
    REJECTED,
    RUNNING,
    WAITING,
    FakeCluster,
    FakePolicy,
    Request,
    instance_stats,
    outcome_of,
    result_of,
    served,
    ticks,
    trace_of,
)

MIXED = [
    served(0, 0, 1, 3, output=3, prompt=100),
    served(0, 0, 2, 4, output=5, prompt=200, preemptions=2),
    Request(scheduled=0, first_token=3, output=90, generated=7, prompt=300, instance=0, status=RUNNING),
    Request(prompt=400, status=WAITING),
    Request(arrival=20, prompt=500, status=NOT_ARRIVED),
    Request(prompt=600, status=REJECTED, reason=1),
    Request(prompt=700, status=REJECTED, reason=2),
    Request(prompt=700, status=REJECTED, reason=3),
]


def test_every_request_is_counted_once() -> None:
    totals = result_of(MIXED).totals()
    counts = [totals.finished, totals.running, totals.waiting, totals.not_arrived, totals.rejected]
    counts += [totals.held, totals.gave_up]
    assert counts == [2, 1, 1, 1, 3, 0, 0]
    assert totals.requests == sum(counts) == 8
    assert totals.rejected_by_reason == {
        "sequence longer than max_model_len": 1,
        "KV of the whole sequence exceeds the instance's blocks": 1,
        "prompt longer than the tokens of a step, which is not cut into chunks": 1,
    }


def test_rates_of_a_complete_replay_run_to_the_last_completion() -> None:
    totals = result_of(MIXED[:2], end=10.0).totals()
    assert (totals.makespan_s, totals.simulated_s) == (4.0, 10.0)
    assert totals.requests_per_s == 2 / 4
    assert totals.output_tokens_per_s == 8 / 4
    assert totals.total_tokens_per_s == (300 + 8) / 4


def test_rates_of_a_replay_cut_short_run_to_the_cut() -> None:
    totals = result_of(MIXED, end=10.0).totals()
    assert totals.makespan_s == 10.0
    assert totals.requests_per_s == 2 / 10
    assert totals.output_tokens == 3 + 5 + 7
    assert totals.output_tokens_per_s == 15 / 10
    # Prompts of requests with a first token, not of waiting or rejected requests.
    assert totals.total_tokens_per_s == (100 + 200 + 300 + 15) / 10


def test_no_time_gives_no_rate() -> None:
    totals = result_of([Request(status=REJECTED, reason=1)], end=0.0).totals()
    assert (totals.requests_per_s, totals.total_tokens_per_s, totals.mean_batch) == (0, 0, 0)


def test_tokens_add_up_beyond_32_bits() -> None:
    many = 2**30 - 1
    requests = [served(0, 0, 1, 2, output=2, prompt=many, generated=many) for _ in range(5)]
    totals = result_of(requests).totals()
    assert totals.output_tokens == 5 * many > 2**32
    assert totals.total_tokens_per_s == 10 * many / 2.0


def test_batch_size_and_kv_use_are_weighted_by_time() -> None:
    # Instance 0 runs 4 requests for 5 of 10 s and holds 800 of its 1,600 tokens meanwhile; instance 1 idles.
    busy = instance_stats(
        busy_ticks=ticks(5),
        running_ticks=4 * ticks(5),
        waiting_ticks=3 * ticks(10),
        kv_token_ticks=800 * ticks(5),
        peak_blocks=75,
        steps=50,
    )
    idle = instance_stats(blocks=300)
    result = result_of(MIXED[:2], instances=[busy, idle], end=10.0)
    totals = result.totals()
    assert totals.mean_batch_busy == 4.0
    assert totals.mean_batch == 4 * 5 / (2 * 10)
    assert totals.mean_kv_use == 800 * 5 / (10 * (1600 + 4800))
    assert totals.peak_kv_use == 0.75

    first, second = result.instances.rows(named=True)
    assert (first["busy_s"], first["busy_share"], first["mean_batch"]) == (5.0, 0.5, 2.0)
    assert (first["mean_kv_use"], first["mean_waiting"], first["steps"]) == (0.25, 3.0, 50)
    assert (second["instance"], second["blocks"], second["mean_batch_busy"], second["peak_kv_use"]) == (
        1,
        300,
        0,
        0,
    )


def test_integrals_may_exceed_64_bits() -> None:
    # 100 days with 1,000 requests running is 8.64e21 request-picoseconds.
    day = 86_400 * 10**12
    instance = instance_stats(busy_ticks=100 * day, running_ticks=1000 * 100 * day)
    outcome = outcome_of(MIXED[:1], instances=[instance])
    outcome.stats = json.dumps({**json.loads(outcome.stats), "end_ticks": 100 * day}).encode()
    result = Result.from_outcome(
        trace=trace_of(MIXED[:1]), cluster=FakeCluster(), policy=FakePolicy(), outcome=outcome, settings={}
    )
    assert result.totals().mean_batch == 1000.0


def test_preemptions_and_steps_are_carried_over() -> None:
    totals = result_of(MIXED).totals()
    assert (totals.preemptions, totals.steps) == (2, 7)


def test_counters_of_the_cache_add_up_over_instances() -> None:
    one = instance_stats(prefix_queries=900, prefix_hits=300, evictions=5, swapped_out_blocks=7)
    other = instance_stats(
        prefix_queries=100,
        prefix_hits=100,
        evictions=1,
        swapped_in_blocks=6,
        swap_overflows=2,
        discarded_tokens=4,
    )
    result = result_of(MIXED[:2], instances=[one, other])
    totals = result.totals()
    assert (totals.prefix_queries, totals.prefix_hits, totals.prefix_hit_rate) == (1000, 400, 0.4)
    assert (totals.evictions, totals.swap_overflows) == (6, 2)
    assert (totals.swapped_out_blocks, totals.swapped_in_blocks) == (7, 6)
    assert result.instances["prefix_hits"].to_list() == [300, 100]
    assert result.instances["discarded_tokens"].to_list() == [0, 4]


def test_without_a_prefix_cache_its_hit_rate_is_zero() -> None:
    assert result_of(MIXED[:2]).totals().prefix_hit_rate == 0.0


@pytest.mark.parametrize(("order", "looked"), [("longest_output", True), ("arrival", False)])
def test_a_policy_that_read_the_oracle_is_flagged(order: Any, looked: bool) -> None:
    requests = MIXED[:1]
    policy = Policy(name="mine", scheduler=Scheduler(order=order))
    result = Result.from_outcome(
        trace=trace_of(requests),
        cluster=FakeCluster(),
        policy=policy,
        outcome=outcome_of(requests),
        settings={},
    )
    assert result.totals().uses_oracle is looked
    assert result.provenance.uses_oracle is looked


def test_rows_that_reading_dropped_are_reported() -> None:
    requests = MIXED[:1]
    trace = Trace(trace_of(requests).frame, dropped={"no output": 12})
    result = Result.from_outcome(
        trace=trace, cluster=FakeCluster(), policy=FakePolicy(), outcome=outcome_of(requests), settings={}
    )
    assert result.totals().dropped_rows == {"no output": 12}


def test_totals_become_json() -> None:
    totals = result_of(MIXED).totals()
    assert json.loads(json.dumps(totals.to_dict()))["rejected"] == 3
    assert replace(totals, rejected=4) != totals


@pytest.mark.parametrize(("count", "words"), [(1, "1 instance in"), (2, "2 instances in")])
def test_repr_says_the_most_important_in_one_line(count: int, words: str) -> None:
    text = repr(result_of(MIXED[:2], instances=[instance_stats()] * count))
    assert text.startswith("Result('by-hand', 2 of 2 requests finished on ")
    assert words in text
    assert text.endswith("4.0 simulated seconds)")
