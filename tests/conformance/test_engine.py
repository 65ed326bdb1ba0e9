"""The engine against the decision logs of real schedulers, and the command that checks it."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import paceline
from paceline.conformance import check, read_log
from paceline.conformance.__main__ import main
from paceline.conformance.check import replayed

LOGS = Path(__file__).parent / "logs"
FILES = sorted(LOGS.glob("*/*.json.gz"))
LIGHT = LOGS / "vllm" / "light.json.gz"


def test_there_are_142_logs() -> None:
    assert len(FILES) == 142


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name.split('.')[0]}")
def test_the_engine_decides_what_the_real_scheduler_decided(file: Path) -> None:
    log = read_log(file)
    for leap in (True, False):
        assert check(log, leap=leap) is None, "leaping" if leap else "stepping"


def test_tokens_of_requests_that_had_ended_are_those_that_the_real_scheduler_discarded() -> None:
    found = {}
    for file in LOGS.glob("vllm-spec/async-*.json.gz"):
        log = read_log(file)
        left, discarded = list(log.output_tokens), []
        for _, scheduled, *_ in log.steps:
            # A request that has all its output yields no more, whatever it is scheduled with.
            discarded.append(sum(tokens for row, tokens, *_ in scheduled if left[row] == 0))
            for row, *_, kept in scheduled:
                left[row] -= kept
        for leap in (True, False):
            (used,) = json.loads(replayed(log, leap=leap).stats)["instances"]
            # A replay ends with the last answer, and may cut the last step off.
            assert used["discarded_tokens"] == sum(discarded[: used["steps"]])
        found[file.name.split(".")[0]] = sum(discarded)
    assert found == {"async-none": 0, "async-eagle": 248, "async-eagle-prefix": 156}


def forge(tmp_path: Path, *, step: int | None = None, finish: int | None = None) -> Path:
    """Copy a log with one number one larger: the tokens of a step's first request, or a finish."""
    content = json.loads(gzip.decompress(LIGHT.read_bytes()))
    if step is not None:
        content["log"]["steps"][step][1][0][1] += 1
    if finish is not None:
        content["log"]["finish_ns"][finish] += 1
    copy = tmp_path / "forged.json"
    copy.write_text(json.dumps(content), encoding="utf-8")
    return copy


def test_the_command_reports_a_log_that_is_reproduced(capsys: pytest.CaptureFixture[str]) -> None:
    steps = len(read_log(LIGHT).steps)
    assert main([str(LIGHT)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{LIGHT}: leaping: all {steps} steps equal",
        f"{LIGHT}: stepping: all {steps} steps equal",
    ]


def test_the_command_finds_one_changed_decision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = read_log(LIGHT).steps[3]
    forged = forge(tmp_path, step=3)
    assert main([str(forged)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert f"step 3 at {recorded[0]} ns" in line
        assert line.endswith("in the log")
        assert str(recorded[1]) in line


def test_the_command_finds_one_changed_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finish = read_log(LIGHT).finish_ns[5]
    assert main([str(forge(tmp_path, finish=5)), str(LIGHT)]) == 1
    first, *others = capsys.readouterr().out.splitlines()
    assert first.endswith(f"leaping: request 5: finish (ns) is {finish} here, {finish + 1} in the log")
    assert len(others) == 3


@pytest.mark.parametrize("text", ["", "[]", "{}", "no JSON", '{"engine": {}, "cost": {}, "requests": []}'])
def test_the_command_refuses_a_file_that_is_no_log(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.json"
    file.write_text(text, encoding="utf-8")
    assert main([str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{file}: not a decision log" in captured.err


def test_the_command_refuses_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "missing.json")]) == 2
    assert "missing.json" in capsys.readouterr().err


def test_the_command_goes_on_after_a_file_that_is_no_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.json"
    file.write_text("{}", encoding="utf-8")
    assert main([str(file), str(LIGHT)]) == 2
    assert capsys.readouterr().out.count("steps equal") == 2


def test_the_process_exits_with_what_the_command_returned(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "paceline.conformance", str(forge(tmp_path, step=0))],
        env={**os.environ, "PYTHONPATH": str(Path(paceline.__file__).parents[1])},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1


def test_the_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: python -m paceline.conformance")
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("usage: python -m paceline.conformance")
