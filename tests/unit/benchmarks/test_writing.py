"""Replays written in the formats of clients, and read back to equal numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

import paceline
from paceline import Affine, Cluster, Concurrency, Instance, Result, Trace, replay
from paceline.benchmarks import read_bench, write_bench
from paceline.errors import ResultError


def made(*, record: bool = True) -> Result:
    """Replay three requests in steps of 10 ms, the last of which is rejected."""
    trace = Trace.from_columns(arrival=[0.0, 0.5, 0.75], prompt_tokens=[8, 20, 90], output_tokens=[3, 5, 2])
    cluster = Cluster([Instance(cost=Affine(step_s=0.010), num_blocks=101, max_model_len=64)])
    return replay(trace, cluster, sample=0.1, **({"record": (0.0, 10.0)} if record else {}))


@pytest.fixture(scope="module")
def busy() -> Result:
    """Replay requests on two GPUs with little memory, so that requests are preempted."""
    trace = paceline.synthesize("azure-conv", requests=150, rate=40.0, seed=1)
    cluster = Cluster(
        2 * [Instance(model="llama-3.1-8b", gpu="h100-sxm", num_blocks=700, max_model_len="auto")]
    )
    result = replay(trace, cluster, sample=0.5, record=(0.0, 1e5))
    assert result.totals().preemptions > 0
    return result


def test_vllm_reads_back_to_the_requests_and_their_gaps(tmp_path: Path) -> None:
    result = made()
    file = write_bench(result, tmp_path / "b.json")
    document = json.loads(file.read_text())
    assert document["itls"] == [pytest.approx([0.01] * 2), pytest.approx([0.01] * 4), []]
    assert document["output_lens"] == [3, 5, 0]
    assert (document["completed"], document["failed"]) == (2, 1)
    assert document["mean_tpot_ms"] == pytest.approx(10.0)
    bench = read_bench(file)
    rows, requests = bench.completed, result.requests.filter(pl.col("status") == "finished")
    assert rows["sent"].to_list() == requests["arrival"].to_list()
    assert rows["measured_ttft"].to_list() == requests["ttft"].to_list()
    assert rows["measured_e2e"].to_list() == requests["e2e"].to_list()
    assert list(bench.failures) == ["rejected: sequence longer than max_model_len"]


@pytest.mark.parametrize("format", ["vllm", "aiperf", "llm-d"])
def test_what_is_written_reads_back_to_equal_numbers(tmp_path: Path, busy: Result, format: str) -> None:
    bench = read_bench(write_bench(busy, tmp_path / "written", format=format))  # type: ignore[arg-type]
    summary = {row["metric"]: row for row in busy.summary().iter_rows(named=True)}
    theirs = {"itl": "tpot"} if format == "aiperf" else {"ntpot": "normalized_latency"}
    sources = [bench.statistics(), bench.stated]
    for found in sources:
        assert {"ttft", "e2e", "itl"} <= found.keys()
        for metric, statistics in found.items():
            row = summary[theirs.get(metric, metric)]
            # A percentile of pooled gaps comes from a sketch, within 1/256.
            tolerance = 1 / 128 if metric == "itl" and format != "aiperf" else 1e-12
            for name, value in statistics.items():
                expected = row["p50" if name == "median" else name]
                assert value == pytest.approx(expected, rel=tolerance), (metric, name)
    assert bench.totals.completed == busy.totals().finished
    assert bench.totals.request_throughput == pytest.approx(
        busy.totals().finished / (busy.requests["finish"].max() - busy.requests["arrival"].min())  # type: ignore[operator]
    )
    assert bench.model == "llama-3.1-8b"
    if format != "llm-d":
        assert bench.requests["sent"].to_numpy() == pytest.approx(
            (busy.requests["arrival"] - busy.requests["arrival"].min()).to_numpy(), abs=1e-9
        )
        for ours in ("ttft", "tpot", "e2e"):
            assert bench.requests[f"measured_{ours}"].to_list() == pytest.approx(
                busy.requests[ours].to_list(), rel=1e-9
            )


def test_gaps_of_preempted_requests_add_up(tmp_path: Path, busy: Result) -> None:
    rows = read_bench(write_bench(busy, tmp_path / "b.json")).requests
    assert rows["gaps"].list.len().to_list() == (rows["output_tokens"] - 1).to_list()
    total = rows["measured_ttft"] + rows["gaps"].list.sum()
    assert total.to_numpy() == pytest.approx(rows["measured_e2e"].to_numpy(), rel=1e-9)
    longest = rows["gaps"].list.max().drop_nulls().to_numpy()
    assert longest == pytest.approx(busy.requests["max_itl"].drop_nulls().to_numpy(), rel=1e-6)


def test_without_recorded_steps_there_are_no_gaps_by_request(tmp_path: Path) -> None:
    document = json.loads(write_bench(made(record=False), tmp_path / "b.json").read_text())
    assert "itls" not in document
    assert document["mean_itl_ms"] == pytest.approx(10.0)


def test_a_limit_of_requests_in_flight_is_written(tmp_path: Path) -> None:
    trace = Trace.from_columns(arrival=[0.0] * 6, prompt_tokens=[8] * 6, output_tokens=[3] * 6)
    cluster = Cluster([Instance(cost=Affine(step_s=0.010), num_blocks=101)])
    result = replay(trace, cluster, clients=Concurrency(2, gap_s=0.001))
    for format in ("vllm", "aiperf", "llm-d"):
        bench = read_bench(write_bench(result, tmp_path / format, format=format))  # type: ignore[arg-type]
        assert bench.load.max_concurrency == 2


def test_llm_ds_report_has_the_fields_that_its_schema_requires(tmp_path: Path) -> None:
    """Of benchmark_report/schema_v0_2.py (llm-d-benchmark 32445ce), which forbids fields that it lacks."""
    report = json.loads(write_bench(made(), tmp_path / "r.json", format="llm-d").read_text())
    assert report.keys() == {"version", "run", "scenario", "results"}
    assert report["version"] == "0.2.1"
    assert report["run"].keys() <= {"uid", "eid", "cid", "pid", "time", "user", "description", "keywords"}
    load = report["scenario"]["load"]
    assert load.keys() == {"metadata", "standardized", "native"}
    assert {"tool", "tool_version", "source", "input_seq_len"} <= load["standardized"].keys()
    assert load["standardized"]["source"] in ("random", "sampled", "unknown")
    assert load["standardized"]["input_seq_len"] == {
        "distribution": "other",
        "value": 118 / 3,
        "min": 8,
        "max": 90,
    }
    performance = report["results"]["request_performance"]["aggregate"]
    assert performance["requests"]["failures"] == 1
    assert performance["latency"].keys() == {
        "time_to_first_token",
        "normalized_time_per_output_token",
        "time_per_output_token",
        "inter_token_latency",
        "request_latency",
    }
    units = {name: table["units"] for name, table in performance["throughput"].items()}
    assert units == {
        "input_token_rate": "tokens/s",
        "output_token_rate": "tokens/s",
        "total_token_rate": "tokens/s",
        "request_rate": "queries/s",
    }
    (component,) = report["results"]["observability"]["components"]
    labels = [each["metadata"]["label"] for each in report["scenario"]["stack"]]
    assert component["component_label"] in labels
    series = component["time_series"]["kv_cache_usage"]
    assert (series["units"], series["series"][0].keys()) == ("percent", {"ts", "value"})
    assert re.fullmatch(r"1970-01-01T00:00:00\.1\d*Z", series["series"][0]["ts"])


def test_the_report_in_yaml_is_the_report_in_json(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    plain, other = (write_bench(made(), tmp_path / name, format="llm-d") for name in ("r.json", "r.yaml"))
    assert yaml.safe_load(other.read_text()) == json.loads(plain.read_text())
    assert read_bench(other).statistics() == read_bench(plain).statistics()


def test_openmetrics_has_vllms_names_and_the_timelines_values(tmp_path: Path, busy: Result) -> None:
    text = write_bench(busy, tmp_path / "m.txt", format="openmetrics").read_text()
    assert text.endswith("# EOF\n")
    samples: dict[str, list[tuple[str, float, float]]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            found = re.fullmatch(r'([a-z_:]+)\{engine="(\d)",model_name="llama-3.1-8b"\} (\S+) (\S+)', line)
            assert found is not None, line
            samples.setdefault(found[1], []).append((found[2], float(found[4]), float(found[3])))
    timeline = busy.timeline
    for name, column in (("running", "running"), ("waiting", "waiting")):
        rows = timeline.sort("instance", "time_s")
        expected = list(zip(map(str, rows["instance"]), rows["time_s"], rows[column], strict=True))
        assert samples[f"vllm:num_requests_{name}"] == expected
    assert samples["vllm:kv_cache_usage_perc"] == samples["vllm:gpu_cache_usage_perc"]
    assert max(value for _, _, value in samples["vllm:kv_cache_usage_perc"]) <= 1.0
    last = {engine: value for engine, _, value in samples["vllm:num_preemptions_total"]}
    assert sum(last.values()) == busy.totals().preemptions
    assert sum({e: v for e, _, v in samples["vllm:request_success_total"]}.values()) == 150


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[90], output_tokens=[2])
    cluster = Cluster([Instance(cost=Affine(step_s=0.010), num_blocks=101, max_model_len=64)])
    none = replay(trace, cluster)
    with pytest.raises(ResultError, match="must have a request that finished, had none"):
        write_bench(none, tmp_path / "b.json")
    with pytest.raises(ResultError, match="needs a sampled replay"):
        write_bench(none, tmp_path / "m.txt", format="openmetrics")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").write_text("mine")
    with pytest.raises(ResultError, match="must be a new or an empty folder"):
        write_bench(made(), tmp_path / "full", format="aiperf")
    assert (tmp_path / "full" / "notes").read_text() == "mine"
    with pytest.raises(ResultError, match="could not be written"):
        write_bench(made(), tmp_path / "no" / "such" / "b.json")


def test_a_replay_of_one_request_at_one_moment_is_written(tmp_path: Path) -> None:
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[8], output_tokens=[1])
    cluster = Cluster([Instance(cost=Affine(step_s=0.010), num_blocks=101)])
    result = replay(trace, cluster)
    for format in ("vllm", "aiperf", "llm-d"):
        bench = read_bench(write_bench(result, tmp_path / format, format=format))  # type: ignore[arg-type]
        assert bench.statistics()["e2e"]["mean"] == pytest.approx(0.010)
        assert "tpot" not in bench.statistics()
