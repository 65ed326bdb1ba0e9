"""Distributions of latencies, as numpy and vLLM's benchmark count them."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.result import Result
from unit.result.fakes import REJECTED, RUNNING, WAITING, Request, result_of, served


def row(result: Result, metric: str) -> dict[str, float]:
    return next(row for row in result.summary().rows(named=True) if row["metric"] == metric)


def test_a_row_for_each_metric_in_order() -> None:
    summary = result_of([served(0, 0, 1, 2, output=2)], gaps=[1.0]).summary()
    assert summary["metric"].to_list() == ["ttft", "tpot", "itl", "e2e", "normalized_latency", "queueing"]
    assert summary.columns == ["metric", "p50", "p90", "p99", "p95", "std", "mean", "min", "max", "count"]
    # A frame of more than eight columns is printed without those in the middle.
    head = str(summary).splitlines()[2]
    assert [each.strip() for each in head.strip("│").split("┆")] == [
        *("metric", "p50", "p90", "p99", "…", "mean", "min", "max", "count")
    ]


def test_percentiles_interpolate_linearly() -> None:
    # Ranks of five values are 0, 25, 50, 75 and 100 %: p90 lies 60 % of the way from the fourth to the fifth.
    result = result_of([served(0, 0, ttft, ttft + 1, output=2) for ttft in (1, 2, 3, 4, 5)])
    ttft = row(result, "ttft")
    assert ttft["p50"] == 3
    assert ttft["p90"] == pytest.approx(4.6)
    assert ttft["p95"] == pytest.approx(4.8)
    assert ttft["p99"] == pytest.approx(4.96)
    assert (ttft["mean"], ttft["min"], ttft["max"], ttft["count"]) == (3, 1, 5, 5)


def test_the_standard_deviation_is_the_populations() -> None:
    result = result_of([served(0, 0, ttft, ttft, output=1) for ttft in (1, 3)])
    assert row(result, "ttft")["std"] == 1.0  # with n - 1 it would be the square root of 2


def test_all_requests_that_have_a_metric_count() -> None:
    requests = [
        served(0, 0, 1, 3, output=3),
        served(0, 0, 2, 2, output=1),
        Request(scheduled=0, first_token=3, output=9, generated=1, instance=0, status=RUNNING),
        Request(status=WAITING),
        Request(status=REJECTED, reason=1),
    ]
    counts = {row["metric"]: row["count"] for row in result_of(requests).summary().rows(named=True)}
    assert counts == {"ttft": 3, "tpot": 1, "itl": 0, "e2e": 2, "normalized_latency": 2, "queueing": 3}


def test_nothing_to_summarize_is_null_not_zero() -> None:
    for metric in ("ttft", "itl"):
        figures = row(result_of([Request(status=WAITING)]), metric)
        assert figures.pop("count") == 0
        assert figures.pop("metric") == metric
        assert set(figures.values()) == {None}


def test_itl_is_taken_from_the_sketch() -> None:
    gaps = [0.010, 0.020, 0.030, 0.500]
    itl = row(result_of([served(0, 0, 1, 1.56, output=5)], gaps=gaps), "itl")
    assert itl["count"] == 4
    assert itl["mean"] == pytest.approx(0.14)
    assert itl["std"] == pytest.approx(np.std(gaps))
    assert (itl["min"], itl["max"]) == (0.010, 0.500)


def test_queueing_ends_when_the_first_step_begins() -> None:
    result = result_of([served(1.0, 4.0, 5.0, 6.0, output=2)])
    assert row(result, "queueing")["mean"] == 3.0
