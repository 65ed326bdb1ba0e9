"""Killed runs, full disks and closed outputs: one line, an exit status, and no drafts left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import ON_ONE_H100, Run, command
from cli.test_interrupt import BUSY_IN_NATIVE_CODE
from paceline._atomic import leftovers


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_terminated_run_removes_what_it_had_half_written(tmp_path: Path, number: int, status: int) -> None:
    # Tests that run under nohup ignore SIGHUP, and a process inherits what is ignored.
    as_usual = f"import signal; signal.signal({int(number)}, signal.SIG_DFL)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", as_usual + BUSY_IN_NATIVE_CODE],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    assert len(list(tmp_path.iterdir())) == 1
    process.send_signal(number)
    output, said = process.communicate(timeout=60)
    assert (process.returncode, output, said) == (status, "", "paceline: terminated\n")
    assert list(tmp_path.iterdir()) == []


def killed(folder: Path) -> Path:
    """Return the draft that a killed run left in a folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY_IN_NATIVE_CODE], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "writing\n"
        process.kill()
    (draft,) = leftovers(folder)
    return draft


def test_the_next_run_to_the_same_place_removes_what_a_killed_one_left(
    tmp_path: Path, paceline: Run, small_trace: Path
) -> None:
    draft = killed(tmp_path)
    done = paceline("replay", small_trace, *ON_ONE_H100, "--out", "run", "--quiet")
    assert done.returncode == 0, done.stderr
    assert not draft.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "small.csv"]


def test_clean_lists_and_removes_what_killed_runs_left(tmp_path: Path, paceline: Run) -> None:
    draft = killed(tmp_path)
    assert paceline("clean", "--dry-run").stdout == f"would remove {draft.name}\n"
    assert draft.exists()
    assert json.loads(paceline("clean", tmp_path, "--json").stdout)["drafts"] == [draft.name]
    assert not draft.exists()
    assert paceline("clean").stdout == "no drafts of ended runs in .\n"
    assert paceline("clean", "absent").returncode == 2


FULL_DISK = """
import polars as pl, sys
from paceline.cli import main

def full(*_, **__):
    raise pl.exceptions.ComputeError("No space left on device (os error 28)")

pl.DataFrame.write_parquet = full
sys.exit(main(sys.argv[1:]))
"""


def test_a_disk_that_fills_up_while_a_result_is_saved_is_one_line(tmp_path: Path, small_trace: Path) -> None:
    words = ["replay", str(small_trace), *ON_ONE_H100, "--out", "run", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "could not be written: No space left on device" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["small.csv"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, as Linux has it")
@pytest.mark.parametrize("words", [("models",), ("models", "--json"), ("--help",), ("policies",)])
def test_an_output_that_is_full_is_one_line(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command(*words), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "paceline: No space left on device\n")


@pytest.mark.parametrize("words", [("models",), ("models", "--json"), ("--help",), ("policies",)])
def test_an_output_that_is_closed_is_one_line(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *command(*words)],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert (
        done.stderr
        == "paceline: standard output must be open, was closed; redirect it to a file or to /dev/null\n"
    )


@pytest.mark.parametrize("words", [("models",), ("models", "--json"), ("--help",), ("policies",)])
def test_a_reader_that_closes_the_pipe_gets_no_error_line(words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command(*words), stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_closed_standard_error_hides_the_line_and_keeps_the_status() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", *command("nonsense")],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
