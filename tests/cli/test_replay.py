"""`paceline replay` prints what `paceline.replay` returns in Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import paceline as package
from cli.running import ON_ONE_H100, Run, started
from paceline import (
    SLO,
    Cluster,
    Concurrency,
    Instance,
    Prediction,
    Result,
    load_result,
    policies,
    read_trace,
)


def replayed(trace: Path, prediction: Prediction | None = None, **settings: object) -> Result:
    cluster = Cluster(2 * [Instance(model="llama-3.1-8b", gpu="h100-sxm")], prediction=prediction)
    return package.replay(read_trace(trace), cluster, policies.vllm(routing="fewest_tokens"), **settings)  # type: ignore[arg-type]


TWO = (*ON_ONE_H100, "--instances", 2, "--routing", "fewest-tokens")


def test_json_is_one_object_with_what_the_result_says(paceline: Run, small_trace: Path) -> None:
    done = paceline("replay", small_trace, *TWO, "--json", "--slo", "ttft=2,tpot=0.15")
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    document = json.loads(done.stdout)
    result = replayed(small_trace)
    assert document["totals"] == result.totals().to_dict()
    assert document["instances"] == result.instances.rows(named=True)
    summary = {row.pop("metric"): row for row in result.summary().rows(named=True)}
    assert document["summary"] == summary
    assert summary["ttft"]["count"] == 40
    slo = SLO(ttft=2.0, tpot=0.15)
    assert document["slo"] == {
        "bounds": {"ttft": 2.0, "tpot": 0.15},
        "attainment": result.attainment(slo),
        "goodput": result.goodput(slo),
    }
    assert document["trace"] == {
        "name": result.provenance.trace,
        "sha256": read_trace(small_trace).sha256,
        "requests": 40,
    }


def test_the_table_names_metrics_units_and_counts(paceline: Run, small_trace: Path) -> None:
    done = paceline("replay", small_trace, *TWO, "--slo", "ttft=2")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].endswith(": 40 requests on 2 × llama-3.1-8b on h100-sxm, vllm")
    for metric in ("TTFT (ms)", "TPOT (ms)", "ITL (ms)", "E2E (ms)", "queueing (ms)"):
        assert any(line.lstrip().startswith(metric) for line in lines)
    assert any(line.startswith("requests") and line.endswith("40 finished") for line in lines)
    assert "100.00% within TTFT ≤ 2 s" in done.stdout
    assert max(map(len, lines)) <= 80
    ttft = next(line for line in lines if line.lstrip().startswith("TTFT")).split()
    mean = replayed(small_trace).summary().row(0, named=True)["mean"]
    assert float(ttft[2]) == pytest.approx(1e3 * mean, abs=0.01)


def test_standard_error_says_how_long_it_took_unless_quiet(paceline: Run, small_trace: Path) -> None:
    assert paceline("replay", small_trace, *TWO).stderr.startswith("replayed 40 requests in ")
    assert paceline("replay", small_trace, *TWO, "--quiet").stderr == ""


def test_out_saves_what_python_loads(paceline: Run, small_trace: Path, tmp_path: Path) -> None:
    done = paceline("replay", small_trace, *TWO, "--out", "run")
    assert done.returncode == 0
    assert done.stderr.rstrip().endswith("saved to run")
    loaded, result = load_result(tmp_path / "run"), replayed(small_trace)
    assert loaded.requests.equals(result.requests)
    assert loaded.summary().equals(result.summary())
    assert loaded.provenance.cluster == result.provenance.cluster
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "small.csv"]


def test_a_directory_with_other_files_is_refused_before_the_replay(
    paceline: Run, small_trace: Path, tmp_path: Path
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thesis.tex").write_text("years of work")
    done = paceline("replay", "absent.csv", *TWO, "--out", "notes")
    assert done.returncode == 2
    assert "must be empty or hold a saved result" in done.stderr


def test_predictions_are_charged_in_parallel_or_serially(
    paceline: Run, small_trace: Path, tmp_path: Path
) -> None:
    quick = ("--prediction-ms", 2, "--quiet", "--out", "run")
    assert paceline("replay", small_trace, *TWO, *quick).returncode == 0
    assert set(load_result(tmp_path / "run").column("prediction")) == {0.002}
    serial = (*quick, "--prediction-batch", 8, "--prediction-batch-ms", 5)
    assert paceline("replay", small_trace, *TWO, *serial, "--force").returncode == 0
    expected = Prediction(seconds=0.002, batch=8, where="serial", batch_seconds=0.005)
    assert load_result(tmp_path / "run") == replayed(small_trace, expected)
    done = paceline("replay", small_trace, *TWO, "--prediction-batch", 8)
    assert done.returncode == 2
    assert "--prediction-batch needs --prediction-ms, the time of a prompt; none was given" in done.stderr


def test_without_leaping_the_output_is_the_same(paceline: Run, small_trace: Path) -> None:
    leaping, stepping = (
        paceline("replay", small_trace, *TWO),
        paceline("replay", small_trace, *TWO, "--no-leap"),
    )
    assert leaping.stdout == stepping.stdout != ""


def test_until_leaves_requests_over(paceline: Run, small_trace: Path) -> None:
    done = paceline("replay", small_trace, *TWO, "--json", "--until", 5)
    totals = json.loads(done.stdout)["totals"]
    assert totals["simulated_s"] == 5.0
    # One every quarter of a second: the 21 requests at 0 to 5 s have arrived, the one at 5 s included.
    assert totals["not_arrived"] == 40 - 21
    assert json.loads(done.stdout)["settings"]["until"] == 5.0


@pytest.mark.parametrize(
    ("words", "span_s"), [(("--scale", 2), 9.75 / 2), (("--rate", 8), 39 / 8), ((), 9.75)]
)
def test_the_load_can_be_changed(
    words: tuple[object, ...], span_s: float, paceline: Run, small_trace: Path, tmp_path: Path
) -> None:
    paceline("replay", small_trace, *TWO, *words, "--out", "run")
    arrival = load_result(tmp_path / "run").requests["arrival"]
    assert arrival[-1] - arrival[0] == pytest.approx(span_s)


def test_capacity_set_by_hand_rejects_what_cannot_fit(paceline: Run, small_trace: Path) -> None:
    # 21 blocks, one of them the null block, hold 320 tokens; request i has 100 + 25 i + 1 + i tokens.
    done = paceline("replay", small_trace, *ON_ONE_H100, "--num-blocks", 21, "--json", "--max-model-len", 320)
    assert done.returncode == 0, done.stderr
    totals = json.loads(done.stdout)["totals"]
    assert totals["rejected"] == sum(100 + 25 * i + 1 + i > 320 for i in range(40))
    assert totals["finished"] + totals["rejected"] == 40


def test_rows_without_output_are_counted_or_refused(paceline: Run, tmp_path: Path) -> None:
    (tmp_path / "some.csv").write_text(
        "arrival,prompt_tokens,output_tokens\n0.0,10,5\n1.0,10,0\n2.0,10,5\n", encoding="utf-8"
    )
    done = paceline("replay", "some.csv", *ON_ONE_H100)
    assert "1 rows of the file: " in done.stdout
    done = paceline("replay", "some.csv", *ON_ONE_H100, "--on-empty-output", "error")
    assert (done.returncode, done.stdout) == (2, "")


def test_turns_wait_for_answers_if_asked_and_the_saved_run_says_so(paceline: Run, tmp_path: Path) -> None:
    (tmp_path / "chat.jsonl").write_text(
        '{"session_id": 1, "timestamp": 0, "input_length": 40, "output_length": 500}\n'
        '{"session_id": 1, "timestamp": 1, "input_length": 600, "output_length": 6}\n'
    )
    words = ("--arrivals", "dependent", "--unit", "s", "--out", "run")
    done = paceline("replay", "chat.jsonl", *ON_ONE_H100, *words)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "run" / "run.toml").read_text(encoding="utf-8")
    assert 'arrivals = "dependent"' in text
    assert 'unit = "s"' in text
    assert paceline("replay", "run/run.toml", "--quiet").returncode == 0
    done = paceline("replay", "run/run.toml", "--arrivals", "recorded")
    assert done.returncode == 2
    assert "--arrivals" in done.stderr


def test_a_replay_of_nothing_that_fits_still_answers(paceline: Run, small_trace: Path) -> None:
    done = paceline("replay", small_trace, *ON_ONE_H100, "--max-model-len", 16, "--slo", "ttft=1")
    assert done.returncode == 0
    assert "0 finished, 40 rejected" in done.stdout
    assert "40: sequence longer than max_model_len" in done.stdout
    assert "0.00% within TTFT" in done.stdout


def test_azures_trace_as_it_is_published(data: Path, tmp_path: Path) -> None:
    trace, requests = data / "traces" / "azure2023_code.csv.zst", 8_819 if data.name == "shared" else 300
    done = started("replay", trace, *ON_ONE_H100, "--instances", 4, "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["trace"]["requests"] == requests
    assert document["totals"]["finished"] == requests
    assert [row["instance"] for row in document["instances"]] == [0, 1, 2, 3]


def test_clients_are_limited(paceline: Run, small_trace: Path, tmp_path: Path) -> None:
    words = ("--quiet", "--out", "run", "--concurrency", 1, "--client-gap", "4ms")
    assert paceline("replay", small_trace, *TWO, *words).returncode == 0
    assert load_result(tmp_path / "run") == replayed(small_trace, clients=Concurrency(1, gap_s=0.004))
    for wrong, message in (
        (
            ("--client-gap", "4ms"),
            "--client-gap needs --concurrency or --concurrent-sessions; none was given",
        ),
        (("--concurrency", 1, "--concurrent-sessions", 2), "limit the same clients: give one"),
    ):
        done = paceline("replay", small_trace, *TWO, *wrong)
        assert (done.returncode, message in done.stderr) == (2, True)
