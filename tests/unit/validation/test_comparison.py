"""Latencies, and what a peer printed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.validation.comparison import METRICS, STATISTICS, Latencies, compare
from paceline.validation.peer import read_peer


def latencies(shift: float = 0.0) -> Latencies:
    arrival = np.array([0.0, 1.0, 2.0])
    first = arrival + np.array([0.5, 1.0, 1.5]) + shift
    return Latencies(arrival, first, first + np.array([4.0, 0.0, 8.0]), np.array([5, 1, 5]))


def test_a_request_of_one_token_has_no_tpot() -> None:
    assert latencies().metrics()["tpot"].tolist() == [1.0, 2.0]


def test_latencies_count_from_the_arrival() -> None:
    statistics = latencies().statistics()
    assert statistics["ttft"]["mean"] == 1.0
    assert statistics["e2e"]["median"] == 4.5
    assert statistics["ttft"]["p90"] == pytest.approx(1.4)


def test_json_has_every_metric_and_statistic() -> None:
    comparison = compare("a run", latencies(), latencies(shift=0.1), {"ttft": {"mean": 0.9}})
    document = comparison.to_json()
    assert list(document) == list(METRICS)
    assert all(list(document[metric]) == list(STATISTICS) for metric in METRICS)
    assert document["ttft"]["mean"] == {"measured": 1.0, "predicted": pytest.approx(1.1), "peer": 0.9}
    assert document["tpot"]["p99"]["peer"] is None
    assert comparison.error("ttft", "mean") == pytest.approx(0.1)


def test_unfinished_requests_are_refused() -> None:
    cut = latencies()
    cut.last_token[1] = np.nan
    with pytest.raises(ConfigError, match="left 1 unfinished"):
        compare("a run", latencies(), cut)


def test_a_peer_is_read_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "peer.txt"
    path.write_text(
        "Metric  vLLM  Sim  Diff%\n---\nTTFT Mean  65456.6  65820.2  +0.6%\n\nLatency P99  1.0  2.5  +150%\n"
    )
    assert read_peer(path) == {"ttft": {"mean": pytest.approx(65.8202)}, "e2e": {"p99": 0.0025}}


def test_a_peer_line_without_numbers_is_named(tmp_path: Path) -> None:
    path = tmp_path / "peer.txt"
    path.write_text("TTFT Mean  n/a  n/a\n")
    with pytest.raises(ConfigError, match="line 1: must be metric"):
        read_peer(path)
