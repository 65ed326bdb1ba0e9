"""The commands and the Python of docs/guides/benchmarks.md run as they are written."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cli.running import Run


@pytest.fixture(scope="module")
def guide(root: Path) -> str:
    return (root / "docs/guides/benchmarks.md").read_text(encoding="utf-8")


def test_the_commands_run(paceline: Run, guide: str) -> None:
    lines = [
        line for block in re.findall(r"```sh\n(.*?)```", guide, re.DOTALL) for line in block.splitlines()
    ]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("paceline ")]
    # The first compares the output of a server, the others make what they read.
    own = commands[1:]
    assert [words[0] for words in own].count("export") == 4
    for words in own:
        done = paceline(*words)
        assert done.returncode == 0, (words, done.stderr)
    done = paceline(*commands[0])
    assert done.returncode == 0, done.stderr
    assert {file.name for file in Path("aiperf").iterdir()} == {
        "profile_export.jsonl",
        "profile_export_aiperf.json",
    }


def test_the_python_runs(guide: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec("\n".join(re.findall(r"```python\n(.*?)```", guide, re.DOTALL)), {})
    assert capsys.readouterr().out.startswith("Concurrency(most=16, gap_s=0.004, of='requests')\n")
