"""Two ways to run the command line: in this process, or as a user does, in a process of its own."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from paceline.cli import main

Run: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]

ON_ONE_H100 = ("--model", "llama-3.1-8b", "--gpu", "h100-sxm")


def command(*words: object) -> list[str]:
    """Return the words that start Paceline's command line in this interpreter."""
    return [sys.executable, "-m", "paceline", *map(str, words)]


def called(*words: object) -> subprocess.CompletedProcess[str]:
    """Call the command line in this process; return its exit status and all that it printed."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        status = main([str(word) for word in words])
    return subprocess.CompletedProcess(command(*words), status, output.getvalue(), errors.getvalue())


def started(*words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """Start the command line in a process of its own; return its exit status and all that it printed."""
    shape = ("COLUMNS", "FORCE_COLOR")
    environment = {name: value for name, value in os.environ.items() if name not in shape}
    return subprocess.run(
        command(*words), capture_output=True, text=True, check=False, cwd=folder, env=environment
    )
