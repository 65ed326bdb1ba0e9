"""The hand-written stubs say what the native module is: no more names, no fewer, the same signatures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_stubs_match_the_native_module(root: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "paceline._core"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
