"""Benchmarks beside replays of their requests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import paceline
from paceline import Affine, Cluster, Concurrency, Instance, Trace, replay
from paceline.benchmarks import compare_bench, read_bench, write_bench
from paceline.errors import ConfigError
from unit.benchmarks.samples import AIPERF_RECORDS, GUIDELLM, VLLM

CLUSTER = Cluster([Instance(cost=Affine(step_s=0.010), num_blocks=1001)])


def test_the_statistics_follow_from_steps_of_ten_milliseconds(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(json.dumps(VLLM))
    compared = compare_bench(tmp_path / "b.json", CLUSTER)
    # The two requests are sent 20 ms apart, and all steps take 10 ms.
    found = {row[:2]: row[2:5] for row in compared.frame.rows()}
    assert found["ttft", "mean"] == pytest.approx((0.0355, 0.010, 0.010 / 0.0355 - 1))
    assert found["tpot", "median"] == pytest.approx((0.01125, 0.010, 0.010 / 0.01125 - 1))
    assert found["itl", "mean"][0] == pytest.approx(0.01675)
    assert found["e2e", "mean"] == pytest.approx((0.069, 0.040, 0.040 / 0.069 - 1))
    # From the first sending to the last end: 20 + 50 ms.
    assert found["request_throughput", "mean"] == pytest.approx((2 / 1.5, 2 / 0.07, 1.5 / 0.07 - 1))
    assert found["output_throughput", "mean"][:2] == pytest.approx((8 / 1.5, 8 / 0.07))
    assert compared.error("ttft") == pytest.approx(0.010 / 0.0355 - 1)
    assert compared.comparison.notes[1] == "requests that failed are not replayed: 1 TimeoutError"
    assert compared.result.requests["measured_ttft"].to_list() == [0.031, 0.040]


def test_each_tool_is_compared_by_its_own_definitions(tmp_path: Path) -> None:
    (tmp_path / "benchmarks.json").write_text(json.dumps(GUIDELLM))
    guide = compare_bench(tmp_path / "benchmarks.json", CLUSTER)
    found = {row[:2]: row[2:4] for row in guide.frame.rows()}
    # 5 and 2 tokens in steps of 10 ms: TPOT has the first token, too.
    assert found["tpot", "mean"] == pytest.approx((1.9 / 7, 0.010))
    assert found["itl", "mean"] == pytest.approx((1.3 / 5, 0.010))
    assert guide.frame.filter(metric="tpot")["definition"][0] == "(last token - start) / n, weighted by n"
    (tmp_path / "profile_export.jsonl").write_text("\n".join(map(json.dumps, AIPERF_RECORDS)))
    aiperf = compare_bench(tmp_path / "profile_export.jsonl", CLUSTER)
    assert aiperf.frame["metric"].unique(maintain_order=True).to_list() == [
        "ttft",
        "itl",
        "icl",
        "e2e",
        "request_throughput",
        "output_throughput",
    ]
    # The file states none: 2 requests from the first sending to the last end, 250 + 130 ms.
    assert aiperf.frame.filter(metric="request_throughput")["measured"][0] == pytest.approx(2 / 0.380)


def test_a_replay_of_a_capped_client_is_found_again_under_its_limit(tmp_path: Path) -> None:
    trace = paceline.synthesize("azure-conv", requests=200, rate=1000.0, seed=1)
    burst = Trace.from_columns(
        arrival=[0.0] * 200,
        prompt_tokens=trace.frame["prompt_tokens"],
        output_tokens=trace.frame["output_tokens"],
    )
    slow, fast = (Cluster([Instance(cost=Affine(step_s=step), num_blocks=9999)]) for step in (0.02, 0.01))
    file = write_bench(replay(burst, slow, clients=Concurrency(16, gap_s=0.004)), tmp_path / "b.json")
    compared = compare_bench(file, slow)
    assert compared.clients == Concurrency(16, gap_s=0.004)
    assert compared.frame["error"].to_list() == pytest.approx([0.0] * len(compared.frame), abs=2e-6)
    # A server twice as fast serves twice as much under the limit. With the recorded sendings it cannot.
    held, recorded = (compare_bench(file, fast, clients=how) for how in ("auto", None))
    assert held.error("tpot") == pytest.approx(-0.5)
    assert held.error("request_throughput") == pytest.approx(1.0)
    assert 0.0 < recorded.error("request_throughput") < 0.2


def test_a_cluster_that_cannot_serve_a_request_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(json.dumps(VLLM))
    small = Cluster([Instance(cost=Affine(step_s=0.010), num_blocks=1001, max_model_len=24)])
    with pytest.raises(ConfigError, match="must serve every request, 1 were not finished"):
        compare_bench(tmp_path / "b.json", small)


def test_a_measured_overload_with_its_limit_is_what_validate_says(shared: Path) -> None:
    """The roofline's -3.1% in TPOT and -4.0% in E2E of docs/validation.md, without being told the limit."""
    import polars as pl

    from paceline.benchmarks import BenchmarkResult
    from paceline.benchmarks.rows import requests_frame
    from paceline.policies import vllm

    frame = pl.read_csv(shared / "measured/qwen3-14b-h100-vllm/w5_sweep-agg24.csv.gz")
    seconds = {
        name: (1e-6 * frame[name]).to_list() for name in ("arrival_us", "send_us", "ttft_us", "e2e_us")
    }
    rows = requests_frame(
        {
            "scheduled": seconds["arrival_us"],
            "sent": seconds["send_us"],
            "prompt_tokens": frame["prompt_tokens_server"].to_list(),
            "output_tokens": frame["output_tokens"].to_list(),
            "measured_ttft": seconds["ttft_us"],
            "measured_e2e": seconds["e2e_us"],
        },
        "w5_sweep-agg24",
    )
    bench = BenchmarkResult(name="w5_sweep-agg24", tool="vllm", version="0.23.0", requests=rows)
    server = Cluster([Instance(model="qwen3-14b", gpu="h100-sxm", num_blocks=18038)])
    policy = vllm(max_num_seqs=256, max_num_batched_tokens=8192, async_scheduling=True)
    compared = compare_bench(bench, server, policy)
    assert compared.clients is not None
    assert (compared.clients.most, compared.arrivals) == (256, "scheduled")
    assert compared.error("tpot") == pytest.approx(-0.038, abs=0.003)
    assert compared.error("e2e") == pytest.approx(-0.056, abs=0.003)


def test_a_comparison_says_itself_in_json(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(json.dumps(VLLM))
    document = compare_bench(read_bench(tmp_path / "b.json"), CLUSTER).to_json()
    assert json.loads(json.dumps(document)) == document
    assert document["metrics"]["ttft"]["mean"]["measured"] == pytest.approx(0.0355)
    assert document["definitions"]["itl"] == "times between chunks, of all requests together"
    assert (document["requests"], document["failed"], document["clients"]) == (2, 1, None)
