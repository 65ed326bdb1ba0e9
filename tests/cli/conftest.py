"""The command line, run in an empty directory, and a small trace for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.running import Run, called
from paceline.trace.model import Trace


@pytest.fixture
def paceline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command in an empty directory and returns what it printed.

    The command runs in this process: starting an interpreter takes longer than most commands do. Tests of the
    process itself (its exit status, signals, closed streams) start one.
    """
    monkeypatch.chdir(tmp_path)
    # As without a terminal, whatever terminal the tests run in.
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return called


@pytest.fixture
def small_trace(tmp_path: Path) -> Path:
    """Return a file of 40 requests, one every quarter of a second."""
    path = tmp_path / "small.csv"
    trace = Trace.from_columns(
        arrival=[index / 4 for index in range(40)],
        prompt_tokens=[100 + 25 * index for index in range(40)],
        output_tokens=[1 + index for index in range(40)],
    )
    trace.write(path)
    return path
