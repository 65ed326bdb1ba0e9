"""The hand-written stubs say what the native module is: no more names, no fewer, the same signatures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# Only names and signatures are compared with the module. The types are checked by `make lint`, for which mypy
# reads all of Paceline and of NumPy: that takes six times as long.
ALONE = """\
[mypy]
[mypy-numpy.*,paceline.*]
follow_imports = skip
follow_imports_for_stubs = True
"""


def test_stubs_match_the_native_module(root: Path, tmp_path: Path) -> None:
    settings = tmp_path / "mypy.ini"
    settings.write_text(ALONE)
    run = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "paceline._core", "--mypy-config-file", str(settings)],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
