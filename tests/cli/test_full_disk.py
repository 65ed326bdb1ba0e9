"""Where a file cannot grow any further, the error names it and says why, and nothing is left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import ON_ONE_H100

if sys.platform == "win32":
    pytest.skip("needs limits of a process", allow_module_level=True)

# Python does not notice a short write of bytecode, which would end each later import of the module.
PROGRAM = """\
import resource, sys
sys.dont_write_bytecode = True
from paceline.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
sys.exit(main(sys.argv[1:]))
"""


def limited(*words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that cannot write a file of more than 4,096 bytes: for it the disk is full."""
    arguments = [sys.executable, "-c", PROGRAM, *map(str, words)]
    return subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=folder)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.jsonl.zst"])
def test_a_trace_that_does_not_fit_is_named(name: str, tmp_path: Path) -> None:
    done = limited("synthesize", "azure-conv", "--requests", 2000, "--out", name, folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr == f"paceline: {tmp_path.resolve() / name}: File too large\n"
    assert list(tmp_path.iterdir()) == []


def test_a_result_that_does_not_fit_is_named(tmp_path: Path, root: Path) -> None:
    trace = root / "traces/azure-conv-1000.csv"
    done = limited("replay", trace, *ON_ONE_H100, "--out", "run", "--quiet", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr == f"paceline: {tmp_path.resolve() / 'run'}: could not be written: File too large\n"
    assert list(tmp_path.iterdir()) == []


def test_a_ranker_that_does_not_fit_is_named(tmp_path: Path) -> None:
    rows = "".join(f"write {index} lines about the sea,{index}\n" for index in range(1, 200))
    (tmp_path / "prompts.csv").write_text(f"prompt,output_tokens\n{rows}", encoding="utf-8")
    done = limited("rank", "train", "prompts.csv", "--out", "ranker", "--quiet", folder=tmp_path)
    assert done.returncode == 2
    assert "ranker: " in done.stderr
    assert "File too large" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["prompts.csv"]
