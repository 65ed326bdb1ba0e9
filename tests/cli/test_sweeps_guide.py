"""The commands of docs/guides/sweeps.md run as they are written, on the files that it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cli.running import Run

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`([\w-]+\.toml)`[^`]*\Z")


@pytest.mark.timeout(600)
def test_every_command_runs(paceline: Run, tmp_path: Path, root: Path) -> None:
    (tmp_path / "traces").symlink_to(root / "traces")
    text = (root / "docs/guides/sweeps.md").read_text(encoding="utf-8")
    commands = 0
    for block in FENCE.finditer(text):
        if block[1] == "toml":
            name = NAMED.search(text[: block.start()])
            assert name, "a file is named before it is shown"
            (tmp_path / name[1]).write_text(block[2], encoding="utf-8")
        elif not block[1]:
            for line in block[2].replace("\\\n", " ").splitlines():
                first, *words = shlex.split(line)
                assert first == "paceline"
                done = paceline(*words)
                assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
                commands += 1
    assert commands == 11
    for part in ("requests.parquet", "itl.json", "run.toml", "manifest.json"):
        assert (tmp_path / "first" / part).read_bytes() == (tmp_path / "second" / part).read_bytes()
