"""`paceline report`, and `paceline replay --chart`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.running import ON_ONE_H100, Run


@pytest.fixture
def saved(paceline: Run, small_trace: Path, tmp_path: Path) -> list[Path]:
    """Save two results whose directories have the same name."""
    folders = [tmp_path / policy / "out" for policy in ("fcfs", "vllm")]
    for folder in folders:
        folder.parent.mkdir()
        words = (*ON_ONE_H100, "--policy", folder.parent.name, "--out", folder, "--quiet")
        assert paceline("replay", small_trace, *words).returncode == 0
    return folders


def test_a_report_of_a_saved_result(paceline: Run, saved: list[Path], tmp_path: Path) -> None:
    done = paceline("report", saved[0], "--out", "r.html", "--slo", "ttft=0.1")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("wrote r.html, ")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<title>small: out</title>" in text
    assert "SLO: TTFT ≤ 0.1 s" in text


def test_several_results_are_named_by_as_much_of_their_paths_as_it_takes(
    paceline: Run, saved: list[Path], tmp_path: Path
) -> None:
    assert paceline("report", *saved, "--out", "r.html", "--quiet").stderr == ""
    assert "<title>small: fcfs/out, vllm/out</title>" in (tmp_path / "r.html").read_text(encoding="utf-8")
    names = ("--name", "a", "--name", "<b>")
    assert paceline("report", *saved, *names, "--out", "r.html").returncode == 0
    assert "<title>small: a, &lt;b&gt;</title>" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_capacity_in_json_becomes_a_curve(
    paceline: Run, saved: list[Path], small_trace: Path, tmp_path: Path
) -> None:
    words = (*ON_ONE_H100, "--slo", "ttft=0.2", "--tolerance", 0.05, "--json")
    found = paceline("capacity", small_trace, *words)
    (tmp_path / "found.json").write_text(found.stdout)
    assert paceline("report", saved[0], "--capacity", "found.json", "--out", "r.html").returncode == 0
    rates = [row["rate"] for row in json.loads(found.stdout)["curve"]]
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert f"{rates[0]:.6g}" in text
    assert "Attainment by rate" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none", "--out", "r.html"], "none: not a directory"),
        (["fcfs/out", "fcfs/out", "--out", "r.html"], "results must be different directories"),
        (
            ["fcfs/out", "vllm/out", "--name", "a", "--out", "r.html"],
            "--name must be given once for each of 2",
        ),
        (["fcfs/out", "--out", "fcfs"], "must be a file, was a directory"),
        (["fcfs/out", "--capacity", "small.csv", "--out", "r.html"], "not readable as JSON"),
        (
            ["fcfs/out", "--capacity", "fcfs/out/manifest.json", "--out", "r.html"],
            "capacity 'manifest' must be",
        ),
        (["fcfs/out", "--out", "none/r.html"], "could not be written: No such file"),
    ],
)
@pytest.mark.usefixtures("saved")
def test_what_cannot_be_reported_is_one_line(paceline: Run, words: list[str], message: str) -> None:
    done = paceline("report", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_charts_follow_the_tables(paceline: Run, small_trace: Path) -> None:
    plain = paceline("replay", small_trace, *ON_ONE_H100, "--quiet")
    drawn = paceline("replay", small_trace, *ON_ONE_H100, "--quiet", "--chart")
    assert drawn.stdout.startswith(plain.stdout)
    for title in ("TTFT: share of requests", "E2E: share of requests", "Requests in flight"):
        assert title in drawn.stdout
        assert title not in plain.stdout
    assert json.loads(paceline("replay", small_trace, *ON_ONE_H100, "--json", "--chart").stdout)
