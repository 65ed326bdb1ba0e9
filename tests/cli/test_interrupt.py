"""Ctrl-C stops a command at once, prints one line, and leaves no partial output."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import ON_ONE_H100, command
from paceline import cli
from paceline.trace.model import Trace
from unit.validation.points.samples import AICONFIGURATOR, write

SLO = ("--slo", "ttft=0.2,tpot=0.01")


def read_until(descriptor: int, words: str) -> str:
    """Read a terminal until it shows `words`."""
    seen = ""
    while words not in seen:
        ready, _, _ = select.select([descriptor], [], [], 60)
        assert ready, f"the terminal never showed {words!r}, only {seen!r}"
        seen += os.read(descriptor, 4096).decode()
    return seen


def interrupt(process: subprocess.Popen[bytes], controller: int) -> str:
    """Interrupt a command, which ends with that status and no output; return what its terminal shows."""
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, b"")
    return read_until(controller, "interrupted")


def test_a_replay_is_stopped(tmp_path: Path) -> None:
    # Two thousand million steps, one by one: without the interrupt this takes minutes.
    trace = Trace.from_columns(
        arrival=[0.0] * 20_000, prompt_tokens=[10] * 20_000, output_tokens=[100_000] * 20_000
    )
    trace.write(tmp_path / "endless.csv")
    controller, terminal = pty.openpty()
    words = command("replay", "endless.csv", *ON_ONE_H100, "--no-leap", "--max-num-seqs", 1, "--out", "run")
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=terminal)
    # The bar shows that the engine is running; on a terminal it is shown by default.
    shown = read_until(controller, "left")
    assert "replaying" in shown
    said = interrupt(process, controller)
    os.close(terminal)
    os.close(controller)
    # The bar is removed and the cursor restored before the line is printed.
    assert said.index("\x1b[?25h") < said.index("paceline: interrupted")
    assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["endless.csv"]


STUDY = """
[trace]
path = "long.csv"
[[cluster.instances]]
model = "llama-3.1-8b"
gpu = "h100-sxm"
[over]
policy = ["vllm", "sarathi"]
scale = [1.0, 2.0]
"""


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("capacity", "long.csv", *ON_ONE_H100, *SLO, "--windows", 8, "--tolerance", 1e-6), "searching"),
        (("plan", "long.csv", *ON_ONE_H100, *SLO, "--most", 4000), "searching"),
        (("compare", "long.csv", *ON_ONE_H100, "--against", "sarathi"), "replaying"),
        (("sweep", "study.toml", "--out", "swept"), "starting"),
        (("validate", "--suite", "data"), "replayed"),
    ],
    ids=["capacity", "plan", "compare", "sweep", "suite"],
)
def test_replays_side_by_side_are_stopped(words: tuple[object, ...], shown: str, tmp_path: Path) -> None:
    # Replays of seconds each, or thousands of shorter ones.
    trace = Trace.from_columns(
        arrival=[index / 1000 for index in range(200_000)],
        prompt_tokens=[1000] * 200_000,
        output_tokens=[500] * 200_000,
    )
    trace.write(tmp_path / "long.csv")
    (tmp_path / "study.toml").write_text(STUDY)
    sizes = ({"tp_size": 2**at, "osl": 16 + more} for at in range(3) for more in range(3000))
    write(tmp_path / "data" / "points.csv", [{**AICONFIGURATOR, **size} for size in sizes])
    controller, terminal = pty.openpty()
    process = subprocess.Popen(command(*words), cwd=tmp_path, stdout=subprocess.PIPE, stderr=terminal)
    read_until(controller, shown)
    said = interrupt(process, controller)
    os.close(terminal)
    os.close(controller)
    assert "Traceback" not in said


BUSY_IN_NATIVE_CODE = """
import sys, threading
from pathlib import Path
from paceline.cli import app, main
from paceline.cli.interrupt import interruptible
from paceline._atomic import new_directory

def write() -> None:
    with new_directory(Path("run")) as draft:
        (draft / "requests.parquet").write_bytes(b"half of it")
        print("writing", flush=True)
        threading.Event().wait()  # as deaf to signals as a long call into a library

def run(arguments: object) -> int:
    interruptible(write)
    return 0

app.run = run
sys.exit(main([]))
"""


def test_a_half_written_result_is_removed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY_IN_NATIVE_CODE],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    assert len(list(tmp_path.iterdir())) == 1
    process.send_signal(signal.SIGINT)
    output, said = process.communicate(timeout=60)
    assert (process.returncode, output, said) == (130, "", "paceline: interrupted\n")
    assert list(tmp_path.iterdir()) == []


IN_TEXT_THAT_EXEC_RUNS = """
import sys
from paceline.cli import app, main

app.run = lambda arguments: exec("raise KeyboardInterrupt")
sys.exit(main([]))
"""


def test_an_interrupt_inside_text_that_exec_runs_has_the_same_status(tmp_path: Path) -> None:
    # As while a module with a dataclass is imported.
    (tmp_path / "interrupted.py").write_text(IN_TEXT_THAT_EXEC_RUNS)
    for words in (["interrupted.py"], ["-m", "interrupted"]):
        ended = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True)
        assert (ended.returncode, ended.stderr) == (130, "paceline: interrupted\n")


def test_an_interrupt_inside_the_wait_for_a_lock_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(arguments: object) -> int:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise RuntimeError("release unlocked lock")  # noqa: B904 - as threading does

    monkeypatch.setattr("paceline.cli.app.run", interrupted)
    assert cli.main([]) == 130
