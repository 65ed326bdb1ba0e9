"""The time of predicting output lengths: hand-worked delays, and their place in a result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paceline
from paceline import Affine, ClockError, Cluster, ConfigError, Instance, Prediction, Trace, policies
from paceline.testing import check

CLUSTER = Cluster([Instance(cost=Affine(step_s=0.01, token_s=1e-5), num_blocks=101)])


def predicted_by(prediction: Prediction, frontend_s: float = 0.0) -> Cluster:
    return replace(CLUSTER, prediction=prediction, frontend_s=frontend_s)


def delays(prediction: Prediction, *arrivals_ms: int) -> list[float]:
    n = len(arrivals_ms)
    given = Trace.from_columns(
        arrival=np.array(arrivals_ms) / 1e3, prompt_tokens=[8] * n, output_tokens=[1] * n
    )
    predicted = paceline.replay(given, predicted_by(prediction)).column("prediction")
    return [round(seconds * 1e3, 9) for seconds in predicted]


def queued(prediction: Prediction, arrivals: list[int]) -> list[int]:
    """Return how long each prediction takes, in ticks like the arrivals, batch by batch."""
    each, once = (round(seconds * 1e12) for seconds in (prediction.seconds, prediction.batch_seconds))
    if prediction.where == "parallel":
        return [each + once] * len(arrivals)
    ends: list[int] = []
    while len(ends) < len(arrivals):
        start = max(arrivals[len(ends)], ends[-1] if ends else 0)
        there = [at for at in arrivals[len(ends) :] if at <= start][: prediction.batch]
        ends += [start + once + each * len(there)] * len(there)
    return [end - at for end, at in zip(ends, arrivals, strict=True)]


def trace(seed: int = 1, requests: int = 200) -> Trace:
    rng = np.random.default_rng(seed)
    return Trace.from_columns(
        arrival=np.cumsum(rng.exponential(0.02, requests)),
        prompt_tokens=rng.integers(1, 100, requests),
        output_tokens=rng.integers(1, 60, requests),
        score=rng.random(requests),
    )


def test_in_parallel_each_prompt_takes_its_own_time() -> None:
    assert delays(Prediction(seconds=0.010), 0, 0, 3, 90) == [10, 10, 10, 10]
    assert delays(Prediction(seconds=0.010, batch_seconds=0.005), 0, 3) == [15, 15]


def test_serially_a_prompt_waits_for_those_before_it() -> None:
    # Busy from 0 to 20 without a gap, then free until 50.
    assert delays(Prediction(seconds=0.010, where="serial"), 0, 5, 50) == [10, 15, 10]
    assert delays(Prediction(seconds=0.010, batch_seconds=0.002, where="serial"), 0, 5, 50) == [12, 19, 12]


def test_a_free_predictor_takes_what_has_arrived_up_to_a_batch() -> None:
    # Batches: the first alone at 0; the second alone at 10; of three that wait at 20, two; the last at 40.
    two = Prediction(seconds=0.010, batch=2, where="serial")
    assert delays(two, 0, 5, 12, 18, 19) == [10, 15, 28, 22, 31]
    # With 20 ms a batch: one prompt until 21, the three others until 44.
    four = Prediction(seconds=0.001, batch=4, where="serial", batch_seconds=0.020)
    assert delays(four, 0, 5, 12, 18) == [21, 39, 32, 26]
    # Prompts that arrive together are in one batch; one that arrives as it starts, too.
    assert delays(two, 0, 0, 0, 20) == [20, 20, 30 + 10, 40 - 20]


def test_a_serial_predictor_that_is_never_free_serves_a_batch_at_a_time() -> None:
    fast = Prediction(seconds=0.001, batch=10, where="serial", batch_seconds=0.005)
    assert delays(fast, *[0] * 25) == [15.0] * 10 + [30.0] * 10 + [40.0] * 5


@given(
    gaps=st.lists(st.integers(0, 12), min_size=1, max_size=40),
    each=st.integers(0, 5),
    once=st.integers(0, 5),
    batch=st.integers(1, 6),
)
def test_serial_delays_are_those_of_a_queue_stepped_through_time(
    gaps: list[int], each: int, once: int, batch: int
) -> None:
    arrivals = np.cumsum(gaps).tolist()
    prediction = Prediction(seconds=each / 1e3, batch=batch, where="serial", batch_seconds=once / 1e3)
    ends: dict[int, int] = {}
    queue: list[int] = []
    now, busy_until = 0, 0
    while len(ends) < len(arrivals):
        queue += [row for row, at in enumerate(arrivals) if at == now]
        while queue and now >= busy_until:
            taken, queue = queue[:batch], queue[batch:]
            busy_until = now + once + each * len(taken)
            ends |= dict.fromkeys(taken, busy_until)
        now += 1
    expected = [ends[row] - at for row, at in enumerate(arrivals)]
    assert delays(prediction, *arrivals) == expected


@pytest.mark.parametrize(
    "prediction",
    [
        Prediction(seconds=0.015),
        Prediction(seconds=0.015, where="serial"),
        Prediction(seconds=0.015, batch=4, where="serial", batch_seconds=0.03),
    ],
)
@pytest.mark.parametrize("policy", [policies.vllm(), policies.pars()])
def test_a_prediction_is_a_later_arrival_at_the_router(
    prediction: Prediction, policy: paceline.Policy
) -> None:
    given = trace()
    result = paceline.replay(given, predicted_by(prediction, frontend_s=0.25), policy)
    check(result)
    late = result.column("prediction")
    ticks = np.rint(given.frame["arrival"].to_numpy() * 1e12).astype(np.uint64) + np.uint64(25 * 10**10)
    expected = np.array(queued(prediction, ticks.tolist()), dtype=np.uint64)
    assert late.to_list() == (expected / 1e12).tolist()
    # From ticks, so that the requests of a batch arrive at the same moment.
    shifted = given.frame.with_columns(arrival=pl.Series((ticks + expected) / 1e12))
    same = paceline.replay(Trace(shifted, name="shifted"), CLUSTER, policy)
    for name in ("scheduled", "first_token", "finish", "preempted", "executed"):
        assert result.column(name).to_list() == pytest.approx(same.column(name).to_list(), abs=1e-9), name
    for name in ("queueing", "ttft", "e2e", "blocked"):
        assert result.column(name).to_list() == pytest.approx(
            (same.column(name) + late + 0.25).to_list(), abs=1e-9
        ), name


def test_a_prediction_is_a_part_of_queueing_and_parts_still_add_up() -> None:
    # 4 ms and 6 ms in a batch of one; the instance is free after the 10 ms step of the first.
    two = Trace.from_columns(arrival=[0.0, 0.001], prompt_tokens=[8, 8], output_tokens=[1, 1])
    serial = Prediction(seconds=0.004, where="serial")
    cluster = Cluster([Instance(cost=Affine(step_s=0.010), num_blocks=101)], prediction=serial)
    rows = paceline.replay(two, cluster).requests
    # Predicted at 4 and 8 ms; the first runs from 4 to 14 ms, the second from 14 to 24 ms.
    assert rows["prediction"].to_list() == [0.004, 0.007]
    assert rows["queueing"].to_list() == [0.004, 0.013]
    assert rows["e2e"].to_list() == [0.014, 0.023]
    parts = ("executed", "blocked", "preempted", "transfer")
    assert rows.select(total=pl.sum_horizontal(parts))["total"].to_list() == pytest.approx([0.014, 0.023])
    assert rows["held"].to_list() == [0, 0]


def test_without_predictions_nothing_is_charged() -> None:
    result = paceline.replay(trace(), CLUSTER, policies.pars())
    assert set(result.column("prediction")) == {0.0}
    assert "prediction" not in result.provenance.cluster


def test_leaping_equals_stepping_and_a_saved_result_has_the_column(tmp_path: Path) -> None:
    serial = Prediction(seconds=0.015, batch=3, where="serial")
    leaping, stepping = (
        paceline.replay(trace(), predicted_by(serial), policies.pars(), leap=leap) for leap in (True, False)
    )
    assert leaping.requests.equals(stepping.requests)
    assert Cluster.from_toml(leaping.provenance.cluster) == predicted_by(serial)
    folder = leaping.save(tmp_path / "run")
    assert paceline.load_result(folder) == leaping
    assert paceline.load_result(folder, lazy=True).column("prediction").equals(leaping.column("prediction"))


def test_a_request_arrives_in_the_timeline_when_it_was_predicted() -> None:
    two = Trace.from_columns(arrival=[0.0, 0.0], prompt_tokens=[8, 8], output_tokens=[400, 1])
    serial = Prediction(seconds=1.5, where="serial")
    result = paceline.replay(two, predicted_by(serial), sample=1.0)
    # At 1.5 and 3 s: between the samples at 1 and 2 s, and by the one at 3 s.
    arrivals = result.router_timeline.filter(pl.col("arrivals") > 0).select("time_s", "arrivals")
    assert arrivals.rows() == [(2.0, 1), (3.0, 1)]


def test_a_request_that_is_not_predicted_by_the_end_has_not_arrived() -> None:
    result = paceline.replay(trace(requests=2), predicted_by(Prediction(seconds=60)), until=10.0)
    assert result.column("status").to_list() == ["not_arrived"] * 2
    assert result.column("prediction").to_list() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seconds": -0.1}, r"seconds of a Prediction must be a number of seconds from 0 to 3600, was -0\.1"),
        ({"seconds": 4000}, "from 0 to 3600, was 4000"),
        ({"seconds": 1, "batch_seconds": float("nan")}, "batch_seconds of a Prediction must be .* was nan"),
        ({"seconds": 1, "batch": 0, "where": "serial"}, "batch of a Prediction must be a whole .*, was 0"),
        ({"seconds": 1, "batch": 2}, "batch of a Prediction must be 1 with where='parallel', .* was 2"),
        ({"seconds": 1, "where": "later"}, "where of a Prediction must be .* was 'later'"),
    ],
)
def test_what_is_no_prediction_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Prediction(**settings)


@pytest.mark.parametrize("batch", [1, 2])
def test_predictions_beyond_the_clock_are_refused(batch: int) -> None:
    n = 5000
    given = Trace.from_columns(arrival=[0.0] * n, prompt_tokens=[8] * n, output_tokens=[1] * n)
    # The clock holds 16,140,901 s, and a prediction takes an hour.
    prediction = Prediction(seconds=3600, batch=batch, where="serial")
    with pytest.raises(ClockError, match=r"row 448\d reaches the routers after .* predict faster"):
        paceline.replay(given, predicted_by(prediction))
