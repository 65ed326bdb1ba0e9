"""Scores of predictions, worked by hand, and how a point's cost and regime decide what is scored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from paceline import Model
from paceline.validation.points.point import Point, Server
from paceline.validation.points.predicting import Predicted
from paceline.validation.points.scoring import by_cost, by_group, by_peer, score, worst
from paceline.validation.points.workloads import Closed

LOAD = Closed(prompt_tokens=10, output_tokens=10, concurrency=1, requests=1)
SERVER = Server(engine="vllm", version="0.19.0", model=Model.load("llama-3.1-8b"), gpu="h100-sxm")


def predicted(
    name: str,
    measured: Mapping[str, float],
    values: Mapping[Any, Mapping[str, float]],
    **fields: Any,
) -> Predicted:
    given = {"in_flight": 1.0, "precision": "bf16", "server": SERVER, "workload": LOAD, **fields}
    return Predicted(Point(id=name, measured=measured, **given), values)


def test_a_score_is_the_middle_and_the_ninetieth_percentile_of_sizes_and_the_middle_with_signs() -> None:
    # Sizes 0.1, 0.2, 0.3, 0.4, 0.5: the middle is 0.3; nine tenths of four steps up is 0.4 + 0.6 x 0.1.
    of = score([-0.5, 0.4, -0.3, 0.2, -0.1])
    assert of == pytest.approx({"n": 5, "median_abs": 0.3, "p90_abs": 0.46, "bias": -0.1})


def test_a_score_of_nothing_has_no_numbers() -> None:
    of = score([])
    assert of["n"] == 0
    assert math.isnan(of["median_abs"])


def test_tables_are_scored_where_there_are_some_and_the_roofline_elsewhere() -> None:
    both = predicted("a", {"tpot": 0.010}, {"tables": {"tpot": 0.011}, "roofline": {"tpot": 0.008}})
    one = predicted("b", {"tpot": 0.010}, {"roofline": {"tpot": 0.007}})
    assert (both.chosen(), one.chosen(), predicted("c", {"tpot": 1.0}, {}).chosen()) == (
        "tables",
        "roofline",
        None,
    )
    found = by_cost([both, one])
    assert found["all"]["roofline"]["tpot"] == pytest.approx(
        {"n": 2, "median_abs": 0.25, "p90_abs": 0.29, "bias": -0.25}
    )
    assert found["both"]["roofline"]["tpot"]["median_abs"] == pytest.approx(0.2)
    assert found["both"]["tables"]["tpot"]["n"] == 1


def test_at_the_edge_of_capacity_the_throughput_is_scored_alone() -> None:
    values = {"tables": {"ttft": 9.0, "throughput": 95.0}}
    measured = {"ttft": 1.0, "throughput": 100.0}
    assert predicted("a", measured, values, edge=True).errors("tables") == {
        "throughput": pytest.approx(-0.05)
    }
    assert set(predicted("a", measured, values).errors("tables")) == {"ttft", "throughput"}


def test_a_metric_that_was_not_measured_is_not_scored() -> None:
    point = predicted("a", {"tpot": 0.010}, {"tables": {"tpot": 0.010, "e2e": 3.0}})
    assert point.errors("tables") == {"tpot": 0.0}


@pytest.mark.parametrize(
    ("in_flight", "regime"), [(8.0, "light"), (8.1, "busy"), (64.0, "busy"), (64.1, "heavy")]
)
def test_regimes_are_by_requests_in_flight_on_an_instance(in_flight: float, regime: str) -> None:
    assert predicted("a", {}, {}, in_flight=in_flight).point.regime == regime


def test_groups_hold_the_points_that_were_replayed() -> None:
    points = [
        predicted("x#1", {"tpot": 0.010}, {"roofline": {"tpot": 0.009}}),
        predicted("x#2", {"tpot": 0.010}, {"roofline": {"tpot": 0.013}}, in_flight=100.0),
        predicted("y#1", {"tpot": 0.010}, {}),
    ]
    groups = by_group(points)
    assert {name: of["tpot"]["n"] for name, of in groups["regime"].items()} == {"light": 1, "heavy": 1}
    assert groups["data"]["x"]["tpot"] == pytest.approx(
        {"n": 2, "median_abs": 0.2, "p90_abs": 0.28, "bias": 0.1}
    )
    assert "y" not in groups["data"]


def test_peers_are_scored_beside_ours_on_the_same_metrics() -> None:
    said = {"other": {"tpot": 0.012}}
    values = {"tables": {"tpot": 0.009, "ttft": 1.0}}
    found = by_peer([predicted("a", {"tpot": 0.010, "ttft": 1.0}, values, peers=said)])
    assert found["other"]["peer"]["tpot"]["bias"] == pytest.approx(0.2)
    assert found["other"]["ours"]["tpot"]["bias"] == pytest.approx(-0.1)
    assert set(found["other"]["ours"]) == {"tpot"}


def test_the_worst_are_by_ratio_so_that_half_is_as_far_off_as_twice() -> None:
    points = [
        predicted("a", {"tpot": 1.0}, {"tables": {"tpot": 1.9}}),
        predicted("b", {"tpot": 1.0, "ttft": 1.0}, {"tables": {"tpot": 1.1, "ttft": 0.4}}),
        predicted("c", {"tpot": 1.0}, {"tables": {"tpot": 1.0}}),
    ]
    found = [(one.point.id, metric, round(error, 6)) for one, _, metric, error in worst(points, 2)]
    assert found == [("b", "ttft", -0.6), ("a", "tpot", 0.9)]
