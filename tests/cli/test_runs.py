"""`paceline replay run.toml`, `--cluster FILE.toml`, `paceline compare` and `paceline sweep`."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

import paceline as package
from cli.running import ON_ONE_H100, Run, command
from paceline import SLO, Candidates, Cluster, Instance, Links, policies, read_sweep, read_trace

MIXED = Cluster(
    [
        Instance(model="llama-3.1-8b", gpu="h100-sxm"),
        Instance(model="llama-3.1-8b", gpu="a100-80gb", num_blocks=9000),
    ],
    Links(gbps=100.0),
)
STUDY = """
slo = { ttft = 0.3 }
[trace]
preset = "azure-conv"
requests = 40
[[cluster.instances]]
model = "llama-3.1-8b"
gpu = "h100-sxm"
[over]
rate = [2.0, 20.0]
policy = ["vllm", "sarathi"]
"""


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Return the file of a cluster of two kinds, with links."""
    (tmp_path / "mixed.toml").write_text(MIXED.to_toml())
    return tmp_path / "mixed.toml"


def document(paceline: Run, *words: object) -> dict[str, object]:
    """Return the JSON that a command prints."""
    done = paceline(*words, "--json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_a_saved_run_repeats_the_replay_bit_for_bit(
    paceline: Run, small_trace: Path, mixed: Path, tmp_path: Path
) -> None:
    words = ("--cluster", mixed, "--policy", "sarathi", "--rate", 9, "--until", 3, "--no-leap")
    first = paceline("replay", small_trace, *words, "--out", "a", "--json", "--quiet")
    second = paceline("replay", "a/run.toml", "--out", "b", "--json", "--quiet")
    assert (first.returncode, second.returncode) == (0, 0)
    assert first.stdout == second.stdout
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert "run.toml" in files
    assert files == sorted(path.name for path in (tmp_path / "b").iterdir())
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    trace = read_trace(small_trace).at_rate(rate=9)
    expected = package.replay(trace, MIXED, policies.sarathi(), until=3, leap=False)
    assert package.load_result("a") == package.load_result("b") == expected


def test_a_run_says_all_there_is(paceline: Run, small_trace: Path) -> None:
    paceline("replay", small_trace, *ON_ONE_H100, "--out", "a")
    for words in (("--rate", 3), ("--gpu", "h100-sxm"), ("--policy", "fcfs"), ("--no-leap",), ("--until", 2)):
        done = paceline("replay", "a/run.toml", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert "says all there is about the run" in done.stderr
    small_trace.write_text(small_trace.read_text().replace("100", "101", 1))
    done = paceline("replay", "a/run.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "must have the digest" in done.stderr


def test_a_cluster_file_stands_for_the_options(paceline: Run, small_trace: Path, mixed: Path) -> None:
    replayed = document(paceline, "replay", small_trace, "--cluster", mixed)
    assert Cluster.from_toml(str(replayed["cluster"])) == MIXED
    searched = document(paceline, "capacity", small_trace, "--cluster", mixed, "--slo", "ttft=1")
    assert Cluster.from_toml(str(searched["cluster"])) == MIXED
    words = ("plan", small_trace, "--cluster", mixed, "--slo", "ttft=1", "--scale", 20, "--most", 8)
    planned = document(paceline, *words)
    found = package.plan(
        read_trace(small_trace),
        Candidates(list(MIXED.instances), most=8, links=MIXED.links),
        None,
        SLO(ttft=1),
        scale=20,
    )
    assert planned["table"] == found.to_dict()["table"]


def test_a_cluster_file_excludes_the_options(paceline: Run, small_trace: Path, mixed: Path) -> None:
    for name in ("replay", "capacity", "plan"):
        slo = () if name == "replay" else ("--slo", "ttft=1")
        done = paceline(name, small_trace, "--cluster", mixed, "--tp", 2, *slo)
        assert (done.returncode, done.stdout) == (2, "")
        assert "mixed.toml says all about the cluster; write there what --tp says" in done.stderr
    done = paceline("plan", small_trace, "--cluster", mixed, "--also", "tp=2", "--slo", "ttft=1")
    assert "write there what --also says" in done.stderr
    mixed.write_text("instances = 3")
    done = paceline("replay", small_trace, "--cluster", mixed)
    assert done.returncode == 2
    assert "mixed.toml: a cluster must be tables" in done.stderr
    assert "gone.toml" in paceline("replay", small_trace, "--cluster", "gone.toml").stderr


def test_the_json_of_compare_is_what_the_function_returns(paceline: Run, small_trace: Path) -> None:
    words = ("--against", "sarathi:max_num_seqs=8", "--warmup-s", 0.1, "--slo", "ttft=0.3", "--scale", 40)
    found = document(paceline, "compare", small_trace, *ON_ONE_H100, *words)
    expected = package.compare(
        read_trace(small_trace).at_rate(scale=40),
        Cluster([MIXED.instances[0]]),
        {"vllm": policies.vllm(), "sarathi:max_num_seqs=8": policies.sarathi(max_num_seqs=8)},
        slo=SLO(ttft=0.3),
        warmup_s=0.1,
    )
    assert {name: found[name] for name in expected.to_dict()} == expected.to_dict()
    # Forty requests, one every 1/160 s: those before 0.1 s are the first sixteen.
    assert (found["warmup_requests"], found["requests"]) == ([16], [24])


def test_the_table_of_compare_says_method_and_warm_up(paceline: Run, small_trace: Path) -> None:
    done = paceline("compare", small_trace, *ON_ONE_H100, "--against", "sarathi", "--warmup-s", 1)
    assert done.returncode == 0
    assert "intervals  95%, bootstrap over 10 blocks of consecutive requests, 1000 draws" in done.stdout
    assert "warm-up    4 requests of the first 1 s are not judged" in done.stdout
    assert sum("× " in line for line in done.stdout.splitlines()) == 9
    several = paceline("compare", small_trace, small_trace, *ON_ONE_H100, "--against", "sarathi", "--all")
    assert "Student's t over 2 traces" in several.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--against must name a policy"),
        (("--against", "vllm"), "each policy once"),
        (("--against", "sarathi", "--warmup-s", 99), "must end before the last arrival"),
        (("--against", "sarathy"), "there is no policy 'sarathy'; close to it: sarathi"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    words: tuple[object, ...], said: str, paceline: Run, small_trace: Path
) -> None:
    done = paceline("compare", small_trace, *ON_ONE_H100, *words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr
    assert "a trace" in paceline("compare", *ON_ONE_H100, "--against", "sarathi").stderr


def test_a_sweep_prints_its_rows_and_continues(paceline: Run, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    first = document(paceline, "sweep", "study.toml", "--out", "out")
    assert (first["points"], first["kept"], first["failed"]) == (4, 0, 0)
    assert sorted(row["id"] for row in first["rows"]) == read_sweep("out")["id"].to_list()  # type: ignore[attr-defined]
    again = document(paceline, "sweep", "study.toml", "--out", "out")
    assert again["kept"] == 4
    assert again["rows"] == first["rows"]
    shown = paceline("sweep", "study.toml", "--out", "out")
    assert shown.stdout.count("done") == 4
    assert shown.stderr.startswith("replayed 0 of 4 points in ")


def test_a_failed_point_sets_the_exit_status(paceline: Run, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY + '"cluster.instances.0.num_blocks" = [100, 20000]\n')
    done = paceline("sweep", "study.toml", "--out", "out", "--quiet")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.count("failed") == 5  # four points, and the error that they share
    assert "4 points failed: FitError: max_model_len" in done.stdout


def test_a_killed_sweep_loses_no_finished_point(paceline: Run, tmp_path: Path) -> None:
    study = STUDY.replace("requests = 40", "requests = 300000").replace("[2.0, 20.0]", "[2.0, 4.0, 6.0, 8.0]")
    (tmp_path / "study.toml").write_text(study)
    words = command("sweep", "study.toml", "--out", "out", "--workers", 1)
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    points = tmp_path / "out/points"
    # Points that finish within half a second share a file.
    while process.poll() is None and not (points.is_dir() and any(points.glob("*.parquet"))):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it was to be killed before it had ended"
    there = read_sweep("out")
    assert 1 <= there.height < 8
    found = document(paceline, "sweep", "study.toml", "--out", "out")
    assert (found["points"], found["kept"], found["failed"]) == (8, there.height, 0)
    assert all(path.suffix == ".parquet" for path in points.iterdir())
