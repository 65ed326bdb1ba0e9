"""`check` passes the engine's results, and finds each value that is changed in one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paceline
from paceline.deployment import Cluster
from paceline.errors import InvariantViolation
from paceline.policy import Handover, Policy, Scheduler, first_of, hold, inst, pick
from paceline.result import Result
from paceline.result.columns import RequestColumns
from paceline.testing import BrokenInvariant, check
from paceline.testing.strategies import clusters, policies, traces
from paceline.trace import Trace


@given(trace=traces(), cluster=clusters(), policy=policies(), until=st.none() | st.integers(0, 1500))
def test_every_replay_passes(trace: Trace, cluster: Cluster, policy: Policy, until: int | None) -> None:
    check(paceline.replay(trace, cluster, policy, until=None if until is None else until / 1000))


def test_a_saved_result_passes(tmp_path: Any, result: Result) -> None:
    check(paceline.load_result(result.save(tmp_path / "saved")))


@pytest.fixture(scope="module")
def result() -> Result:
    """Replay a load with a queue, a preemption and a rejection."""
    trace = Trace.from_columns(
        arrival=[0.0, 0.0, 0.05, 0.1], prompt_tokens=[40, 40, 500, 20], output_tokens=[30, 30, 5, 4]
    )
    cluster = Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.010), num_blocks=9)])
    result = paceline.replay(trace, cluster)
    assert result.totals().preemptions > 0
    assert "rejected" in result.requests["status"].to_list()
    return result


def tampered(
    result: Result, row: int | None = None, counters: dict[str, Any] | None = None, **cells: Any
) -> Result:
    """Return the result with some cells of a row, or some counters of its instance, written over."""
    frame = result.requests
    if row is not None:
        here = pl.int_range(frame.height) == row
        frame = frame.with_columns(
            pl.when(here).then(pl.lit(value, dtype=frame[name].dtype)).otherwise(pl.col(name)).alias(name)
            for name, value in cells.items()
        )
    first = replace(result.stats.instances[0], **(counters or {}))
    stats = replace(result.stats, instances=(first,))
    return Result(
        columns=RequestColumns.from_frame(frame),
        stats=lambda: stats,
        itl=lambda: result.itl,
        provenance=lambda: result.provenance,
    )


def test_untampered_it_passes(result: Result) -> None:
    check(tampered(result))


@pytest.mark.parametrize(
    ("number", "row", "cells"),
    [
        (1, 3, {"scheduled": 0.05}),
        (1, 1, {"first_token": 0.0, "scheduled": 0.001}),
        (1, 0, {"first_token": None}),
        (1, 0, {"finish": 1e6}),
        (1, 1, {"max_itl": 5.0}),
        (2, 0, {"generated_tokens": 29}),
        (2, 3, {"generated_tokens": 5}),
        (3, 3, {"reason": "sequence longer than max_model_len"}),
        (3, 2, {"status": "waiting", "reason": None}),
        (3, 3, {"instance": None}),
        (12, 3, {"ttft": 0.001}),
        (12, 0, {"tpot": 0.5}),
        (12, 1, {"e2e": None}),
        (12, 1, {"normalized_latency": 1.0}),
        (12, 3, {"queueing": 9.0}),
    ],
)
def test_a_row_that_breaks_an_invariant_is_named(
    result: Result, number: int, row: int, cells: dict[str, Any]
) -> None:
    with pytest.raises(BrokenInvariant) as caught:
        check(tampered(result, row, **cells))
    assert (caught.value.number, caught.value.request) == (number, row)
    assert caught.value.time_s is not None
    assert str(caught.value).startswith(f"INV-{number}: {caught.value.statement}, was: ")
    assert isinstance(caught.value, InvariantViolation)


@pytest.mark.parametrize(
    ("number", "name", "change"),
    [
        (3, "finished", +1),
        (3, "preemptions", -1),
        (4, "blocks", -4),
        (4, "kv_token_ticks", 10**18),
        (10, "busy_ticks", -(10**10)),
        (10, "busy_ticks", 10**13),
        (13, "waiting_ticks", -(10**10)),
        (13, "running_ticks", 10**10),
        (14, "prefill_tokens", -100),
        (14, "prefix_hits", 10),
    ],
)
def test_a_counter_that_breaks_an_invariant_is_found(
    result: Result, number: int, name: str, change: int
) -> None:
    before = getattr(result.stats.instances[0], name)
    with pytest.raises(BrokenInvariant, match=rf"^INV-{number}: "):
        check(tampered(result, counters={name: before + change}))


def test_tokens_without_a_gap_are_found(result: Result) -> None:
    other = paceline.replay(
        Trace.from_columns(arrival=[0.0], prompt_tokens=[5], output_tokens=[5]),
        Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.010), num_blocks=9)]),
    )
    crossed = Result(
        columns=RequestColumns.from_frame(result.requests),
        stats=lambda: result.stats,
        itl=lambda: other.itl,
        provenance=lambda: result.provenance,
    )
    with pytest.raises(BrokenInvariant, match=r"INV-2: generated tokens = gaps \+ first tokens"):
        check(crossed)


def test_of_several_the_lowest_number_and_the_earliest_request_are_reported(result: Result) -> None:
    both = tampered(tampered(result, 1, ttft=9.0), 0, generated_tokens=29)
    with pytest.raises(BrokenInvariant) as caught:
        check(both)
    assert (caught.value.number, caught.value.request) == (2, 0)
    late = result.requests["finish"][1]
    twice = tampered(tampered(result, 1, generated_tokens=29), 3, generated_tokens=3)
    with pytest.raises(BrokenInvariant) as caught:
        check(twice)
    assert caught.value.request == (3 if result.requests["finish"][3] < late else 1)


def test_a_policy_that_holds_passes() -> None:
    """The second request is at the router for the 30 ms of the first, and then with the instance."""
    one = pick(min=inst.index, where=inst.requests == 0)
    policy = Policy(name="one at a time", on_arrival=first_of(one, hold()))
    trace = Trace.from_columns(arrival=[0.0] * 2, prompt_tokens=[4] * 2, output_tokens=[3] * 2)
    cluster = Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.010), num_blocks=101)])
    result = paceline.replay(trace, cluster, policy)
    assert result.requests["held"].to_list() == [0.0, 0.03]
    check(result)


def test_a_lease_that_expires_passes_and_is_counted() -> None:
    """The second prompt is computed on both: its KV is given up before the first request ends."""
    policy = Policy(
        name="short lease",
        scheduler=Scheduler(max_num_seqs=1),
        on_arrival=pick(min=inst.index),
        on_prefilled=pick(max=inst.index),
        handover=Handover(lease=0.001),
    )
    trace = Trace.from_columns(arrival=[0.0] * 2, prompt_tokens=[4] * 2, output_tokens=[3, 30])
    one = paceline.Instance(cost=paceline.Affine(step_s=0.010), num_blocks=101)
    result = paceline.replay(trace, Cluster([one, one]), policy)
    assert result.instances["expired_offers"].to_list() == [0, 1]
    check(result)
