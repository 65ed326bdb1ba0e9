"""The command line, run as a user would: in a process of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cli.running import Run, command
from paceline.trace.model import Trace


@pytest.fixture
def paceline(tmp_path: Path) -> Run:
    """Return a function that runs a command in an empty directory and returns what it printed."""
    shape = ("COLUMNS", "FORCE_COLOR")
    environment = {name: value for name, value in os.environ.items() if name not in shape}

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*words), capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
        )

    return run


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
