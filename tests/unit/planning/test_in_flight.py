"""Capacities and plans in requests and sessions in flight."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import paceline
from paceline import SLO, Affine, Cluster, Concurrency, ConfigError, Instance, Trace

HALF_SECOND = Cluster([Instance(cost=Affine(step_s=0.5), num_blocks=9)])
ONE_AT_A_TIME = paceline.policies.vllm(max_num_seqs=1)


def requests(count: int = 100, **columns: Any) -> Trace:
    given = {"arrival": [0.0] * count, "prompt_tokens": [1] * count, "output_tokens": [1] * count}
    return Trace.from_columns(**given | columns)


def sessions(count: int, *, turns: int, think_s: float) -> Trace:
    rows = count * turns
    return requests(
        rows,
        session=[row // turns for row in range(rows)],
        think_time=[None if row % turns == 0 else think_s for row in range(rows)],
    )


@pytest.mark.parametrize("start", [1, 3, 50])
def test_the_most_requests_in_flight_are_those_that_the_queue_serves_in_time(start: int) -> None:
    # With n in flight a request waits for n - 1 others, half a second each: 4 meet 2 s, 5 do not.
    trace = requests().by(Concurrency(start))
    found = paceline.capacity(trace, HALF_SECOND, ONE_AT_A_TIME, SLO(ttft=2.0))
    assert (found.in_flight, found.fails_at, found.unit) == (4, 5.0, "requests in flight")
    assert found.monotone
    assert found.rate == pytest.approx(2.0)
    assert (found.scale, found.own_rate, found.own) == (None, None, float(start))
    assert repr(found) == "Capacity(4 requests in flight, 4 a GPU)"


def test_sessions_that_think_leave_the_server_to_others() -> None:
    # A round takes 0.5 s of service and 4.5 s of thinking: ten sessions take turns without waiting, after the
    # first round. With eleven each waits in every round.
    trace = sessions(200, turns=20, think_s=4.5).by(Concurrency(1, gap_s=4.5, of="sessions"))
    found = paceline.capacity(trace, HALF_SECOND, ONE_AT_A_TIME, SLO(ttft=0.5), target=0.95)
    assert found.in_flight == 10
    assert found.unit == "sessions in flight"


def test_all_that_a_trace_has_may_be_in_flight() -> None:
    found = paceline.capacity(requests(3).by(Concurrency(1)), HALF_SECOND, ONE_AT_A_TIME, SLO(ttft=2.0))
    assert (found.in_flight, found.bound, found.highest) == (3, "above", 3.0)


def test_none_may_be_enough() -> None:
    found = paceline.capacity(requests(3).by(Concurrency(1)), HALF_SECOND, ONE_AT_A_TIME, SLO(ttft=0.1))
    assert (found.in_flight, found.rate, found.bound) == (None, None, "below")


def test_power_gives_numbers_per_megawatt() -> None:
    cluster = Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm")])
    trace = requests(40, prompt_tokens=[500] * 40, output_tokens=[50] * 40).by(Concurrency(2))
    found = paceline.capacity(trace, cluster, None, SLO(ttft=0.2), between=(None, 8))
    result = paceline.replay(trace.by(Concurrency(found.in_flight or 1)), cluster).totals()
    assert result.energy_j is not None
    watts = result.energy_j / result.makespan_s
    assert found.megawatt_in_flight == pytest.approx((found.in_flight or 0) / watts * 1e6)
    assert found.megawatt_rate == pytest.approx(result.requests_per_s / watts * 1e6)


def test_requests_sent_during_the_warm_up_are_not_judged() -> None:
    trace = requests().by(Concurrency(1))
    found = paceline.capacity(trace, HALF_SECOND, ONE_AT_A_TIME, SLO(ttft=2.0), warmup_s=10.0)
    # At two a second, the first ten seconds send 20 and those in flight at the start.
    by_load = dict(found.curve.select("in_flight", "requests").rows())
    assert by_load[1] == 80
    assert by_load[4] == 100 - 23


def test_a_plan_counts_gpus_for_clients() -> None:
    # A server answers four in turn within 2 s: twelve in flight need three.
    trace = requests(240).by(Concurrency(12))
    found = paceline.plan(trace, HALF_SECOND.instances[0], ONE_AT_A_TIME, SLO(ttft=2.0))
    best = found.best
    assert best is not None
    assert (best["instances"], best["in_flight"], best["gpu_in_flight"]) == (3, 12, 4.0)
    assert best["rate"] == pytest.approx(6.0)
    assert "12 requests in flight" in repr(found)


def test_other_searches_than_can_be_are_refused() -> None:
    trace = requests().by(Concurrency(2))
    with pytest.raises(ConfigError, match="windows must be 1 where the trace has clients, was 2"):
        paceline.capacity(trace, HALF_SECOND, ONE_AT_A_TIME, SLO(ttft=2.0), windows=2)
    with pytest.raises(ConfigError, match="must have the same clients"):
        paceline.capacity([trace, requests()], HALF_SECOND, ONE_AT_A_TIME, SLO(ttft=2.0))
    with pytest.raises(ConfigError, match=r"highest of capacity\(\) must be a whole number of requests"):
        paceline.capacity(trace, HALF_SECOND, ONE_AT_A_TIME, SLO(ttft=2.0), between=(None, 2.5))
    with pytest.raises(ConfigError, match=r"or clients, whose number is searched"):
        paceline.capacity(requests(), HALF_SECOND, ONE_AT_A_TIME, SLO(ttft=2.0))


def test_several_traces_are_samples_in_flight() -> None:
    traces = [requests(count).by(Concurrency(1)) for count in (60, 80)]
    found = paceline.capacity(traces, HALF_SECOND, ONE_AT_A_TIME, SLO(ttft=2.0))
    assert isinstance(found.samples, pl.DataFrame)
    assert found.samples["in_flight"].to_list() == [4.0, 4.0]
    assert found.band == (4.0, 4.0)
