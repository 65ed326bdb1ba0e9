"""Which clients were held back by a limit of requests in flight, and how their runs are replayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from paceline import Concurrency
from paceline.benchmarks import read_bench
from paceline.benchmarks.capped import in_flight_cap
from paceline.benchmarks.clients import replayed
from paceline.benchmarks.model import BenchmarkResult
from paceline.errors import ConfigError, TraceError
from unit.benchmarks.samples import GUIDELLM, SGLANG, VLLM

Floats = NDArray[np.float64]


def closed_loop(requests: int, most: int, gap: float, seed: int) -> tuple[Floats, Floats]:
    """Return send times and ends of a client with `most` places, served in times that are drawn."""
    times = np.random.default_rng(seed).uniform(0.5, 1.5, requests)
    free = [0.0] * most
    sent, ended = [], []
    for time in times:
        start = min(free)
        free.remove(start)
        sent.append(start)
        ended.append(start + time)
        free.append(start + time + gap)
    return np.array(sent), np.array(ended)


@pytest.mark.parametrize("most", [1, 2, 16, 100])
@pytest.mark.parametrize("gap", [0.0, 0.004])
def test_a_closed_loop_is_recognised_with_its_limit_and_gap(most: int, gap: float) -> None:
    found = in_flight_cap(*closed_loop(400, most, gap, 3))
    assert found is not None
    assert found == (most, pytest.approx(gap, abs=1e-9))


@pytest.mark.parametrize("rate", [0.2, 5.0, 60.0])
@pytest.mark.parametrize("seed", range(5))
def test_poisson_arrivals_are_not(rate: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    sent = np.cumsum(draw.exponential(1 / rate, 1000))
    assert in_flight_cap(sent, sent + draw.uniform(0.5, 1.5, 1000)) is None


def test_a_burst_at_the_start_is_not() -> None:
    assert in_flight_cap(np.zeros(100), np.arange(1, 101) * 0.01) is None


def vllm(tmp_path: Path, sent: Floats, ended: Floats, **of: Any) -> BenchmarkResult:
    count = len(sent)
    run = {
        "model_id": "m",
        "completed": count,
        "input_lens": [10] * count,
        "output_lens": [2] * count,
        "ttfts": [0.1] * count,
        "latencies": (ended - sent).tolist(),
        "start_times": sent.tolist(),
        "errors": [""] * count,
        **of,
    }
    (tmp_path / "b.json").write_text(json.dumps(run))
    return read_bench(tmp_path / "b.json")


def test_a_limit_that_was_never_reached_is_not_replayed(tmp_path: Path) -> None:
    sent = np.arange(50.0)
    how = replayed(vllm(tmp_path, sent, sent + 0.5, max_concurrency=8, request_rate=1.0))
    assert (how.clients, how.arrivals) == (None, "recorded")
    assert how.trace.frame["arrival"].to_list() == sent.tolist()


def test_a_limited_client_at_an_infinite_rate_has_all_ready_at_the_start(tmp_path: Path) -> None:
    sent, ended = closed_loop(60, 4, 0.002, 1)
    how = replayed(vllm(tmp_path, sent, ended, max_concurrency=4, request_rate="inf"))
    assert how.clients == Concurrency(4, gap_s=0.002)
    assert how.arrivals == "at-once"
    assert how.trace.frame["arrival"].to_list() == [0.0] * 60


def test_a_limited_client_at_a_rate_is_replayed_by_its_schedule(tmp_path: Path) -> None:
    sent, ended = closed_loop(60, 4, 0.0, 1)
    scheduled = np.minimum(np.arange(60) / 20.0, sent)
    waits = (sent - scheduled).tolist()
    how = replayed(vllm(tmp_path, sent, ended, max_concurrency=4, request_rate=20.0, queue_times=waits))
    assert how.arrivals == "scheduled"
    assert how.trace.frame["arrival"].to_numpy() == pytest.approx(scheduled)
    # An older file lacks the schedule: its mean is known, and that no request is sent before it is ready.
    how = replayed(vllm(tmp_path, sent, ended, max_concurrency=4, request_rate=20.0))
    assert how.arrivals == "by-rate"
    assert how.trace.frame["arrival"].to_numpy() == pytest.approx(scheduled)


def test_where_the_rate_is_unknown_requests_wait_from_the_first_full_moment_on(tmp_path: Path) -> None:
    quiet = np.array([0.0, 2.0, 4.0])
    sent, ended = closed_loop(60, 4, 0.0, 1)
    both = np.concatenate((quiet, sent + 6.0)), np.concatenate((quiet + 1.0, ended + 6.0))
    how = replayed(vllm(tmp_path, *both))
    assert how.arrivals == "at-once"
    assert how.clients == Concurrency(4)
    assert how.trace.frame["arrival"].to_list() == pytest.approx([0.0, 2.0, 4.0] + [6.0] * 60)


def test_a_limit_can_be_given_or_refused(tmp_path: Path) -> None:
    sent, ended = closed_loop(60, 4, 0.0, 1)
    bench = vllm(tmp_path, sent, ended, request_rate="inf")
    assert replayed(bench, Concurrency(7)).clients == Concurrency(7)
    how = replayed(bench, None)
    assert (how.clients, how.arrivals) == (None, "recorded")
    assert how.trace.frame["arrival"].to_numpy() == pytest.approx(sent)


def test_without_send_times_arrivals_are_the_limit_or_drawn(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(SGLANG)
    how = replayed(read_bench(tmp_path / "s.jsonl"))
    assert (how.clients, how.arrivals) == (Concurrency(4), "at-once")
    with pytest.raises(ConfigError, match="has no send times"):
        replayed(read_bench(tmp_path / "s.jsonl"), None)
    (tmp_path / "s.jsonl").write_text(
        SGLANG.replace("Infinity", "4.0").replace('"max_concurrency":4', '"x":1')
    )
    bench = read_bench(tmp_path / "s.jsonl")
    how, again, other = (replayed(bench, seed=seed) for seed in (0, 0, 1))
    assert (how.clients, how.arrivals) == (None, "drawn")
    assert how.trace.sha256 == again.trace.sha256 != other.trace.sha256
    (tmp_path / "s.jsonl").write_text(
        SGLANG.replace("Infinity", "null").replace('"max_concurrency":4', '"x":1')
    )
    with pytest.raises(TraceError, match="no send times, no rate and no limit"):
        replayed(read_bench(tmp_path / "s.jsonl"))


def test_drawn_arrivals_have_the_rate_and_the_burstiness() -> None:
    rows = pl.DataFrame(
        {"prompt_tokens": [1] * 20_000, "output_tokens": [1] * 20_000, "measured_e2e": [0.1] * 20_000}
    )
    from paceline.benchmarks import BenchmarkLoad
    from paceline.benchmarks.rows import requests_frame

    columns = {name: rows[name].to_list() for name in rows.columns}
    for shape in (0.5, 1.0, 4.0, float("inf")):
        bench = BenchmarkResult(
            name="b",
            tool="vllm",
            requests=requests_frame({**columns, "measured_ttft": columns["measured_e2e"]}, "b"),
            load=BenchmarkLoad(rate=5.0, burstiness=shape),
        )
        gaps = replayed(bench).trace.frame["arrival"].diff().drop_nulls().to_numpy()
        # Of a gamma distribution: mean 1 / rate, variance mean² / shape.
        assert gaps.mean() == pytest.approx(0.2, rel=0.05)
        assert gaps.var() == pytest.approx(0.04 / shape, rel=0.1, abs=1e-12)


def test_a_sample_and_a_file_of_statistics_cannot_be_replayed(tmp_path: Path) -> None:
    sampled = json.loads(json.dumps(GUIDELLM))
    sampled["benchmarks"][0]["scheduler_metrics"]["requests_made"]["successful"] = 500
    (tmp_path / "b.json").write_text(json.dumps(sampled))
    with pytest.raises(TraceError, match="must hold all requests to be replayed, has a sample of 2 of 500"):
        replayed(read_bench(tmp_path / "b.json"))
    (tmp_path / "b.json").write_text(json.dumps({**VLLM, "input_lens": None}))
    with pytest.raises(TraceError, match=r"cannot be replayed without lengths .*--save-detailed"):
        replayed(read_bench(tmp_path / "b.json"))


@pytest.mark.parametrize(("run", "most"), [("w5_sweep-agg24", 256), ("sweep_rate-agg_6rps-vanilla", None)])
def test_a_measured_overload_shows_the_clients_limit(shared: Path, run: str, most: int | None) -> None:
    """The limit of 256 is that of ../shared/measured/README.md; the other runs keep to their schedule."""
    frame = pl.read_csv(shared / f"measured/qwen3-14b-h100-vllm/{run}.csv.gz")
    sent = 1e-6 * frame["send_us"].to_numpy()
    found = in_flight_cap(sent, sent + 1e-6 * frame["e2e_us"].to_numpy())
    assert (None if found is None else found[0]) == most
