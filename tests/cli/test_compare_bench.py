"""`paceline compare-bench` and `paceline export`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.running import ON_ONE_H100, Run
from paceline import load_result, read_bench
from unit.benchmarks.samples import SGLANG, VLLM


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(VLLM))
    return path


def test_the_table_has_measured_and_predicted_by_the_tools_definitions(paceline: Run, bench: Path) -> None:
    done = paceline("compare-bench", bench, *ON_ONE_H100, "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    first, *rows = done.stdout.splitlines()
    assert first.split() == ["vllm", "measured", "predicted", "off", "by", "as", "vllm", "defines", "it"]
    assert rows[0].startswith("TTFT mean")
    assert "35.50 ms" in rows[0]
    assert "first chunk - sending" in rows[0]
    assert [row.split()[0] for row in rows[::4]][:4] == ["TTFT", "TPOT", "ITL", "E2E"]
    assert "requests that failed are not replayed: 1 TimeoutError" in done.stdout
    assert "the file lacks when requests were to be sent" in done.stdout


def test_the_files_model_is_taken_if_none_is_given(paceline: Run, bench: Path) -> None:
    named = paceline("compare-bench", bench, *ON_ONE_H100, "--json")
    assert paceline("compare-bench", bench, "--gpu", "h100-sxm", "--json").stdout == named.stdout
    unknown = bench.with_name("unknown.json")
    unknown.write_text(json.dumps({**VLLM, "model_id": "mine"}))
    refused = paceline("compare-bench", unknown, "--gpu", "h100-sxm")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--model must be given" in refused.stderr


def test_the_replay_is_saved_with_the_measured_columns(paceline: Run, bench: Path) -> None:
    done = paceline("compare-bench", bench, *ON_ONE_H100, "--out", "replayed", "--json")
    document = json.loads(done.stdout)
    result = load_result("replayed")
    assert result.requests["measured_e2e"].to_list() == pytest.approx([0.054, 0.084])
    assert document["metrics"]["ttft"]["mean"]["predicted"] == pytest.approx(result.requests["ttft"].mean())


def test_a_front_end_and_limits_are_those_of_the_replay(paceline: Run, bench: Path) -> None:
    plain, late = (
        json.loads(paceline("compare-bench", bench, *ON_ONE_H100, "--frontend-ms", ms, "--json").stdout)
        for ms in (0, 8)
    )
    ttft = [each["metrics"]["ttft"]["mean"]["predicted"] for each in (plain, late)]
    assert ttft[1] - ttft[0] == pytest.approx(0.008, abs=1e-4)
    limited = ("--concurrency", 1, "--client-gap", "4ms", "--json")
    document = json.loads(paceline("compare-bench", bench, *ON_ONE_H100, *limited).stdout)
    assert document["clients"] == {"most": 1, "gap_s": 0.004}
    refused = paceline("compare-bench", bench, *ON_ONE_H100, "--concurrency", 1, "--as-sent")
    assert "--as-sent replays without a limit" in refused.stderr
    assert refused.returncode == 2


def test_one_of_several_runs_is_named(paceline: Run, tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(f"{SGLANG}\n{SGLANG}\n")
    assert "has 2 runs; say which" in paceline("compare-bench", "s.jsonl", *ON_ONE_H100).stderr
    done = paceline("compare-bench", "s.jsonl", *ON_ONE_H100, "--run", 1, "--json")
    assert json.loads(done.stdout)["arrivals"] == "at-once"


def test_a_saved_result_is_exported(paceline: Run, small_trace: Path) -> None:
    paceline("replay", small_trace, *ON_ONE_H100, "--out", "result", "--sample", "1s", "--record", "0,1000")
    for format, name in (("vllm", "b.json"), ("aiperf", "folder"), ("llm-d", "r.json")):
        done = paceline("export", "result", "--out", name, "--format", format)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", f"wrote {name}\n")
        assert read_bench(name).totals.completed == 40
    assert read_bench("b.json").requests["gaps"].null_count() == 0
    paceline("export", "result", "--out", "m.txt", "--format", "openmetrics")
    assert Path("m.txt").read_text().endswith("# EOF\n")
    refused = paceline("export", "nothing", "--out", "b.json")
    assert (refused.returncode, refused.stdout) == (2, "")
