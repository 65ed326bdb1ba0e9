"""Searches and comparisons charge the time of predictions, as a replay does."""

from __future__ import annotations

import pytest

import paceline
from paceline import SLO, Affine, Candidates, Cluster, Instance, Prediction, Trace, policies

SERVER = Instance(cost=Affine(step_s=0.5), num_blocks=9)
TRACE = Trace.from_columns(arrival=range(100), prompt_tokens=[1] * 100, output_tokens=[1] * 100)
ONE_AT_A_TIME = policies.vllm(max_num_seqs=1)


def test_a_serial_predictor_limits_the_capacity() -> None:
    # A request takes 0.5 s; a predictor of 0.25 s before it does not lower the rate, but delays each token.
    free = paceline.capacity(TRACE, Cluster([SERVER]), ONE_AT_A_TIME, SLO(ttft=0.5), between=(None, 16.0))
    predicted = Cluster([SERVER], prediction=Prediction(0.25))
    late = paceline.capacity(TRACE, predicted, ONE_AT_A_TIME, SLO(ttft=0.75), between=(None, 16.0))
    missed = paceline.capacity(TRACE, predicted, ONE_AT_A_TIME, SLO(ttft=0.5), between=(None, 16.0))
    assert free.rate == late.rate == 2.0
    assert missed.bound == "below"


def test_a_plan_charges_it() -> None:
    found = paceline.plan(
        TRACE, Candidates(SERVER, prediction=Prediction(0.25)), ONE_AT_A_TIME, SLO(ttft=0.75), rate=8.0
    )
    assert found.best["instances"] == 4
    few = Candidates(SERVER, most=4, prediction=Prediction(0.25))
    late = paceline.plan(TRACE, few, ONE_AT_A_TIME, SLO(ttft=0.5), rate=8.0)
    assert not any(row["passes"] for row in late.evaluated.rows(named=True))


def test_a_comparison_charges_it() -> None:
    both = {"one": ONE_AT_A_TIME, "many": policies.vllm()}
    free = paceline.compare(TRACE, Cluster([SERVER]), both)
    late = paceline.compare(TRACE, Cluster([SERVER], prediction=Prediction(0.25)), both)
    for name in both:
        delays = late.results[name][0].requests["ttft"] - free.results[name][0].requests["ttft"]
        assert delays.to_list() == pytest.approx([0.25] * 100)


def test_a_sweep_charges_it() -> None:
    grid = paceline.Grid(
        trace=TRACE,
        cluster=Cluster([SERVER]),
        over={"cluster.prediction.seconds": [0.0, 0.25]},
    )
    assert paceline.sweep(grid).frame["ttft_mean"].to_list() == pytest.approx([0.5, 0.75])
