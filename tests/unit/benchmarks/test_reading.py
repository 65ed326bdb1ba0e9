"""Each client's files: what is read, what it lacks, and what is refused."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from paceline.benchmarks import read_bench, read_benches
from paceline.errors import TraceError
from unit.benchmarks.samples import (
    AIPERF_RECORDS,
    AIPERF_SUMMARY,
    GUIDELLM,
    INFERENCE_PERF_REQUESTS,
    INFERENCE_PERF_STAGE,
    LLM_D,
    SGLANG,
    VLLM,
)


def write(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path


def lines(path: Path, documents: list[Any]) -> Path:
    path.write_text("\n".join(map(json.dumps, documents)) + "\n")
    return path


def test_vllm_keeps_places_of_failed_requests(tmp_path: Path) -> None:
    bench = read_bench(write(tmp_path / "b.json", VLLM))
    assert (bench.tool, bench.model) == ("vllm", "meta-llama/Llama-3.1-8B-Instruct")
    rows = bench.requests
    assert rows["sent"].to_list() == pytest.approx([0.0, 0.01, 0.02])
    assert rows["failure"].to_list() == [None, "TimeoutError", None]
    assert bench.failures == {"TimeoutError": 1}
    assert (bench.totals.completed, bench.totals.failed) == (2, 1)  # `failed` from num_prompts
    assert rows["measured_e2e"].to_list() == [pytest.approx(0.054), None, pytest.approx(0.084)]
    assert rows["measured_tpot"].to_list() == [pytest.approx(0.0115), None, pytest.approx(0.011)]
    assert rows["measured_itl"].to_list() == [pytest.approx(0.0115), None, pytest.approx(0.022)]
    assert bench.load.rate == float("inf")
    assert bench.load.max_concurrency == 3
    assert bench.lacks == ("when requests were to be sent",)


def test_vllm_statistics_agree_with_what_its_file_states(tmp_path: Path) -> None:
    bench = read_bench(write(tmp_path / "b.json", VLLM))
    computed = bench.statistics()
    assert bench.stated["ttft"] == pytest.approx({"mean": 0.0355, "median": 0.0355, "p99": 0.03991})
    for metric, statistics in bench.stated.items():
        for name, value in statistics.items():
            assert computed[metric][name] == pytest.approx(value)
    # The gaps are those between chunks: 11, 12, 20 and 24 ms.
    assert computed["itl"]["mean"] == pytest.approx(0.01675)


def test_newer_vllm_says_when_the_client_held_requests_back(tmp_path: Path) -> None:
    newer = {**VLLM, "latencies": [0.055, 0.0, 0.085], "queue_times": [0.0, 0.01, 0.015], "failed": 1}
    del newer["itls"]
    rows = read_bench(write(tmp_path / "b.json", newer)).requests
    assert rows["measured_e2e"].to_list() == [0.055, None, 0.085]
    assert rows["scheduled"].to_list() == pytest.approx([0.0, 0.0, 0.005])
    assert rows["measured_client_queueing"].to_list() == [0.0, None, 0.015]


def test_vllm_without_details_has_statistics_and_says_what_it_lacks(tmp_path: Path) -> None:
    detailed = ("input_lens", "output_lens", "ttfts", "itls", "start_times", "errors")
    short = {name: value for name, value in VLLM.items() if name not in detailed}
    # Newer versions keep these two even without --save-detailed.
    bench = read_bench(write(tmp_path / "b.json", {**short, "latencies": [0.1], "queue_times": [0.0]}))
    assert bench.requests.is_empty()
    assert bench.served() is None
    assert bench.statistics()["tpot"] == {"mean": 0.01125}
    assert "--save-detailed" in bench.lacks[0]


def test_appended_results_are_runs(tmp_path: Path) -> None:
    path = lines(tmp_path / "b.json", [VLLM, {**VLLM, "request_rate": 4.0}])
    assert [bench.load.rate for bench in read_benches(path)] == [float("inf"), 4.0]
    assert read_bench(path, run=1).name.endswith("b.json, line 2")
    with pytest.raises(TraceError, match="has 2 runs; say which, from 0 to 1"):
        read_bench(path)
    with pytest.raises(TraceError, match="run must be from 0 to 1, was 2"):
        read_bench(path, run=2)


def test_sglang_writes_infinity_and_no_send_times(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(SGLANG + "\n" + SGLANG + "\n")
    bench = read_benches(tmp_path / "s.jsonl")[1]
    assert (bench.tool, bench.load.rate, bench.load.max_concurrency) == ("sglang", float("inf"), 4)
    assert bench.requests["sent"].null_count() == 2
    assert bench.requests["measured_e2e"].to_list() == pytest.approx([0.0575, 0.0511])
    assert "when requests were sent" in bench.lacks
    assert bench.stated["itl"] == pytest.approx({"p95": 0.0092})
    assert bench.stated["e2e"] == pytest.approx({"mean": 0.0578})


def test_aiperf_reads_both_files_from_either(tmp_path: Path) -> None:
    records = lines(tmp_path / "profile_export.jsonl", AIPERF_RECORDS)
    summary = write(tmp_path / "profile_export_aiperf.json", AIPERF_SUMMARY)
    for path in (records, summary, tmp_path):
        bench = read_bench(path)
        assert (bench.tool, bench.version, bench.model) == ("aiperf", "0.13.0", "Qwen/Qwen3-14B")
        rows = bench.requests
        assert rows["sent"].to_list() == pytest.approx([0.0, 0.25, 0.3])
        assert rows["request_id"].to_list()[:2] == ["a", "b"]
        assert rows["failure"].to_list() == [None, None, "ServiceUnavailable"]
        assert bench.load.max_concurrency == 8
        assert bench.notes == ("1 requests of the warm-up are left out",)
        # Its ITL is vLLM's TPOT, its ICL vLLM's ITL, and it has no TPOT.
        found = bench.statistics()
        assert found["itl"]["mean"] == pytest.approx(0.010)
        assert found["icl"]["mean"] == pytest.approx(0.015)
        assert "tpot" not in found
        for name, value in bench.stated["ttft"].items():
            assert found["ttft"][name] == pytest.approx(value)


def test_an_aiperf_summary_alone_has_no_requests(tmp_path: Path) -> None:
    bench = read_bench(write(tmp_path / "alone.json", AIPERF_SUMMARY))
    assert bench.requests.is_empty()
    assert bench.totals.request_throughput == 5.0
    assert bench.lacks[0].startswith("lengths and latencies of requests")


def test_guidellm_weighs_by_tokens(tmp_path: Path) -> None:
    bench = read_bench(write(tmp_path / "benchmarks.json", GUIDELLM))
    assert (bench.tool, bench.version, bench.model) == ("guidellm", "0.7.0", "llama")
    found = bench.statistics()
    assert found["tpot"]["mean"] == pytest.approx(1.9 / 7)
    assert found["itl"]["mean"] == pytest.approx(1.3 / 5)
    # A request ends half a second after its last token.
    assert found["e2e"]["mean"] == pytest.approx((1.9 + 1.0) / 2)
    # 4 of the 5 weights are 0.25, so that the 90th percentile is the other value, and the median is not.
    assert found["itl"]["median"] == pytest.approx(0.25)
    assert found["itl"]["p90"] == pytest.approx(0.3)
    assert bench.stated["ttft"] == pytest.approx({"mean": 0.3, "median": 0.2, "p90": 0.4, "p99": 0.4})
    assert found["ttft"]["median"] == pytest.approx(0.2)
    assert (bench.totals.incomplete, bench.failures) == (1, {"incomplete": 1})
    assert (bench.load.rate, bench.load.burstiness) == (2.0, 1.0)


def test_a_sample_of_guidellm_says_so(tmp_path: Path) -> None:
    sampled = copy.deepcopy(GUIDELLM)
    sampled["benchmarks"][0]["scheduler_metrics"]["requests_made"]["successful"] = 500
    bench = read_bench(write(tmp_path / "benchmarks.json", sampled))
    assert bench.lacks == ("all requests: 2 of 500 were kept as a sample",)


def test_the_statistics_of_a_sample_are_the_files(tmp_path: Path) -> None:
    sampled = copy.deepcopy(GUIDELLM)
    sampled["benchmarks"][0]["scheduler_metrics"]["requests_made"]["successful"] = 500
    sampled["benchmarks"][0]["metrics"]["time_to_first_token_ms"]["successful"]["mean"] = 777.0
    assert read_bench(write(tmp_path / "b.json", sampled)).statistics()["ttft"]["mean"] == pytest.approx(
        0.777
    )


def test_guidellm_in_yaml(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    (tmp_path / "benchmarks.yaml").write_text(yaml.safe_dump(GUIDELLM))
    plain = read_bench(write(tmp_path / "benchmarks.json", GUIDELLM))
    for path in (tmp_path / "benchmarks.yaml",):
        assert read_bench(path).requests.equals(plain.requests)
    (tmp_path / "bomb.yaml").write_text("a: &a [1, 1]\nbenchmarks: [*a, *a]\n")
    with pytest.raises(TraceError, match="line 2: must have no YAML aliases"):
        read_bench(tmp_path / "bomb.yaml")


def test_inference_perf_has_a_run_a_stage(tmp_path: Path) -> None:
    write(tmp_path / "stage_0_lifecycle_metrics.json", INFERENCE_PERF_STAGE)
    write(tmp_path / "stage_1_lifecycle_metrics.json", INFERENCE_PERF_STAGE)
    write(tmp_path / "per_request_lifecycle_metrics.json", INFERENCE_PERF_REQUESTS)
    first, second = read_benches(tmp_path)
    assert (len(first.requests), len(second.requests)) == (0, 3)
    assert second.load.rate == 1.0
    assert second.failures == {"ClientError": 1}
    found = second.statistics()
    assert found["tpot"]["mean"] == pytest.approx(((0.7 - 0.4) / 2 + 0.15) / 2)
    assert found["itl"]["mean"] == pytest.approx((0.1 + 0.2 + 0.15) / 3)
    assert found["ntpot"]["mean"] == pytest.approx(second.stated["ntpot"]["mean"])
    assert found["e2e"]["p90"] == pytest.approx(second.stated["e2e"]["p90"])
    alone = read_bench(tmp_path / "stage_1_lifecycle_metrics.json")
    assert len(alone.requests) == 3
    assert first.statistics()["e2e"]["mean"] == 0.55


def test_llm_ds_report_is_statistics_of_the_tool_it_names(tmp_path: Path) -> None:
    bench = read_bench(write(tmp_path / "r.json", LLM_D))
    assert (bench.tool, bench.version, bench.model) == ("vllm", "0.24.0", "Qwen/Qwen3-14B")
    assert bench.statistics()["ttft"] == pytest.approx({"mean": 0.040, "median": 0.038, "p99": 0.090})
    assert bench.statistics()["tpot"] == pytest.approx({"mean": 0.011})
    assert (bench.totals.completed, bench.totals.failed, bench.load.max_concurrency) == (97, 3, 64)


def test_compressed_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(json.dumps(VLLM).encode()))
    assert len(read_bench(tmp_path / "b.json.gz").requests) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ttfts": [0.1, 0.2]}, "ttfts must have as many values as input_lens, 3, had 2"),
        (
            {"ttfts": [-0.1, 0.0, 0.1]},
            "measured_ttft of request 0 must be a finite number of at least 0, was -0.1",
        ),
        ({"input_lens": [0, 1, 2]}, "prompt_tokens of request 0 must be a whole number from 1 to .*, was 0"),
        ({"input_lens": ["a", 1, 2]}, r"expected `int`, got `str` - at `\$.input_lens\[0\]`"),
        ({"request_rate": "fast"}, "request_rate must be a number or inf, was 'fast'"),
        ({"request_rate": 0}, "request_rate must be above 0, was 0"),
        ({"max_concurrency": -1}, "max_concurrency: must be a whole number from 0"),
        (
            {"latencies": [0.001, 0.0, 0.084]},
            "the last token of request 0 must come at or after its first, at 0.031 s, was at 0.001 s",
        ),
        ({"itls": [[0.1, -0.05], [], []]}, "gaps of request 0 must be finite numbers of at least 0"),
    ],
)
def test_a_broken_field_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read_bench(write(tmp_path / "b.json", {**VLLM, **change}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("{}", "must be a result of vllm bench serve"),
        ("[1, 2]", "must be a result of vllm bench serve"),
        ('{"completed": 1', "must be a JSON object"),
        ('{"completed": 1, "model_id": "m"}\n[1]', "must be a JSON object, was"),
        ('{"completed": 1, "model_id": "m"}\n{nothing', "line 2: must be one JSON object"),
        ("\ufeff" + "[" * 100_000, "nested too deeply"),
        ('{"benchmarks": []}', "must have at least one benchmark"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(TraceError, match=message):
        read_bench(tmp_path / "b.json")


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"must hold profile_export\.jsonl"):
        read_bench(tmp_path)


def test_an_unknown_unit_is_refused(tmp_path: Path) -> None:
    record = copy.deepcopy(AIPERF_RECORDS[1])
    record["metrics"]["request_latency"]["unit"] = "fortnights"
    with pytest.raises(TraceError, match=r"unit of request_latency must be one of ns, .*, was 'fortnights'"):
        read_bench(lines(tmp_path / "profile_export.jsonl", [record]))
