"""Help, versions, and mistakes of the caller."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import paceline as package
from cli.running import ON_ONE_H100, Run, started

COMMANDS = (
    "replay",
    "capacity",
    "plan",
    "trace",
    "synthesize",
    "conformance",
    "models",
    "gpus",
    "policies",
    "clean",
)


def test_help_names_every_command(paceline: Run) -> None:
    done = paceline("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    for command in COMMANDS:
        assert f" {command} " in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, paceline: Run) -> None:
    overview, done = paceline("--help"), paceline(command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: paceline {command}")
    rows = [line.split() for line in overview.stdout.splitlines()]
    row = next(row for row in rows if row[1:2] == [command])
    assert " ".join(row[2:6]) in done.stdout
    assert "--json" in done.stdout or command in ("synthesize", "conformance")


def test_version(paceline: Run) -> None:
    done = paceline("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{package.__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "status"), [(("--version",), 0), (("trace", "absent.csv"), 2), (("replai",), 2)]
)
def test_the_process_ends_with_the_status_and_prints_what_the_call_prints(
    words: tuple[str, ...], status: int, paceline: Run, tmp_path: Path
) -> None:
    process, call = started(*words, folder=tmp_path), paceline(*words)
    assert (process.returncode, call.returncode) == (status, status)
    assert (process.stdout, process.stderr) == (call.stdout, call.stderr)


def test_help_does_not_wait_for_the_engine() -> None:
    code = "import sys; from paceline.cli import main; main(['--help']); print('polars' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["replai"], "replai"),
        (["replay"], "TRACE must be given (paceline replay --help)"),
        (["replay", "small.csv", "other.csv"], "'other.csv' must be left out: the command takes no further"),
        (["replay", "small.csv", "--model"], "--model must have a value (paceline replay --help)"),
        (["replay", "small.csv", "--model", "llama-3.1-8b"], "--gpu"),
        (["replay", "small.csv", *ON_ONE_H100, "--instances", "two"], 'unable to convert "two" into int'),
        (["replay", "small.csv", *ON_ONE_H100, "--instances", "0"], "--instances must be at least 1, was 0"),
        (["replay", "small.csv", *ON_ONE_H100, "--num-seqs", "4"], "--num-seqs"),
        (["replay", "small.csv", *ON_ONE_H100, "--routing", "random"], "random"),
        (["replay", "absent.csv", *ON_ONE_H100], "absent.csv: No such file or directory"),
        (["replay", "small.csv", "--model", "llama-9", "--gpu", "h100-sxm"], "llama-9"),
        (["replay", "small.csv", "--model", "llama-3.1-8b", "--gpu", "h9000"], "h9000"),
        (
            ["replay", "small.csv", *ON_ONE_H100, "--rate", "1", "--scale", "2"],
            "one of scale and rate",
        ),
        (
            ["replay", "small.csv", *ON_ONE_H100, "--rate", "0"],
            "rate must be a positive",
        ),
        (["replay", "small.csv", *ON_ONE_H100, "--until", "-1"], "until must be 0 or more seconds"),
        (["replay", "small.csv", *ON_ONE_H100, "--slo", "ttft=-2"], "SLO.ttft must be a positive"),
        (["replay", "small.csv", *ON_ONE_H100, "--max-num-seqs", "0"], "max_num_seqs must be 1 to"),
        (
            ["replay", "small.csv", *ON_ONE_H100, "--policy", "lottery"],
            "there is no policy 'lottery'; ",
        ),
        (["replay", "small.csv", *ON_ONE_H100, "--policy", "absent.toml"], "absent.toml: No such file"),
        (
            ["replay", "small.csv", *ON_ONE_H100, "--policy", "bad.toml"],
            "bad.toml: policy: the scheduler has no",
        ),
        (["replay", "small.csv", *ON_ONE_H100, "--policy", "bad.toml", "--set", "a=1"], "what --set says"),
        (
            ["replay", "small.csv", *ON_ONE_H100, "--set", "watermark"],
            "--set must be NAME=VALUE, was 'watermark'",
        ),
        (
            ["replay", "small.csv", *ON_ONE_H100, "--set", "luck=1"],
            "--set luck: vllm has no such parameter; it has",
        ),
        (["replay", "small.csv", *ON_ONE_H100, "--set", "watermark=a"], "watermark of vllm must be a number"),
        (
            ["replay", "small.csv", *ON_ONE_H100, "--set", "watermark=2"],
            "watermark must be a share of the blocks",
        ),
        (
            ["replay", "small.csv", *ON_ONE_H100, "--set", "policy=lifo"],
            "policy of vllm must be fcfs or priority",
        ),
        (
            ["replay", "small.csv", *ON_ONE_H100, "--policy", "las", "--prefix-caching"],
            "las has no such",
        ),
        (["replay", "broken.csv", *ON_ONE_H100], "broken.csv"),
        (["capacity", "small.csv", *ON_ONE_H100], "--slo must be given (paceline capacity --help)"),
        (["capacity", "small.csv", *ON_ONE_H100, "--slo", "ttft"], "--slo must be NAME=TIME"),
        (["capacity", "small.csv", *ON_ONE_H100, "--slo", "ttft=1,ttft=2"], "each at most once"),
        (["capacity", "small.csv", *ON_ONE_H100, "--slo", "tbt=1"], "names of ttft, tpot, e2e, itl"),
        (
            ["capacity", "small.csv", *ON_ONE_H100, "--slo", "ttft=1h"],
            "--slo ttft must be a time in s, ms or us, or in seconds, such as 500ms or 0.5, was '1h'",
        ),
        (
            ["capacity", "small.csv", *ON_ONE_H100, "--slo", "ttft=1", "--target", "90"],
            "above 0 and at most 1",
        ),
        (["capacity", "small.csv", *ON_ONE_H100, "--slo", "ttft=1", "--rate", "2"], "--rate"),
        (["capacity", "broken.csv", *ON_ONE_H100, "--slo", "ttft=1"], "broken.csv"),
        (["plan", "small.csv", *ON_ONE_H100, "--slo", "ttft=1", "--instances", "2"], "--instances"),
        (
            ["plan", "small.csv", *ON_ONE_H100, "--slo", "ttft=1", "--also", "sms=3"],
            "with names of model, gpu, tp",
        ),
        (
            ["plan", "small.csv", *ON_ONE_H100, "--slo", "ttft=1", "--also", "tp=x"],
            "--also tp must be a whole",
        ),
        (
            ["plan", "small.csv", *ON_ONE_H100, "--slo", "ttft=1", "--price", "h100"],
            "--price must be GPU=PRICE",
        ),
        (
            ["plan", "small.csv", *ON_ONE_H100, "--slo", "ttft=1", "--split", "a,b"],
            "vllm has no such parameter",
        ),
        (
            ["plan", "small.csv", *ON_ONE_H100, "--slo", "ttft=1", "--rate", "1", "--scale", "2"],
            "one of scale and rate",
        ),
        (["trace", "broken.csv"], "broken.csv"),
        (["synthesize", "azure", "--requests", "5", "--rate", "1", "--out", "a.csv"], "azure-conv"),
        (["synthesize", "azure-conv", "--requests", "0", "--rate", "1", "--out", "a.csv"], "requests must"),
        (["synthesize", "azure-conv", "--requests", "5", "--rate", "1", "--out", "a.xls"], ".csv"),
        (["synthesize", "azure-conv", "--rate", "1", "--out", "a.csv"], "requests must be given"),
        (["synthesize", "azure-conv", "--sessions", "3", "--out", "a.csv"], "sessions must be left out"),
        (["synthesize", "agentperf", "--sessions", "3", "--out", "a.csv"], "rate must be given"),
        (["synthesize", "azure-conv", "--requests", "5", "--ramp", "2,20", "--out", "a.csv"], "FROM,TO,TIME"),
        (
            ["synthesize", "azure-conv", "--requests", "5", "--ramp", "2,0,5s", "--out", "a.csv"],
            "end of a Ramp",
        ),
        (
            [
                "synthesize",
                "azure-conv",
                "--requests",
                "5",
                "--ramp",
                "1,2,5s",
                "--steps",
                "0s:1",
                "--out",
                "a.csv",
            ],
            "--ramp and --steps",
        ),
        (
            ["synthesize", "azure-conv", "--requests", "5", "--idle-cap", "9s", "--out", "a.csv"],
            "--idle-cap is for sessions",
        ),
        (["presets", "tracelab"], "one of azure-conv"),
        (["synthesize", "azure-conv", "--requests", "5", "--rate", "1", "--out", "no/a.csv"], "no/"),
    ],
)
def test_a_mistake_is_one_line_and_exit_status_2(
    words: list[str], message: str, paceline: Run, small_trace: Path, tmp_path: Path
) -> None:
    (tmp_path / "broken.csv").write_text("arrival,prompt_tokens,output_tokens\n0.0,10,-3\n")
    (tmp_path / "bad.toml").write_text('name = "mine"\n[scheduler]\nluck = 1\n')
    before = sorted(path.name for path in tmp_path.iterdir())
    done = paceline(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("paceline: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_mistake_in_the_words_points_to_the_help(paceline: Run) -> None:
    assert paceline("replay").stderr.endswith("(paceline replay --help)\n")
