"""`paceline conformance` reports whether the engine decides as the real schedulers did."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from cli.running import Run


@pytest.fixture
def log(root: Path) -> Path:
    return root / "tests/conformance/logs/layered/layered-4.json.gz"


def test_equal_decisions_are_exit_status_0(paceline: Run, log: Path) -> None:
    done = paceline("conformance", log)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.rpartition(": ")[2].split()[0] for line in done.stdout.splitlines()] == ["all", "all"]


def test_a_difference_is_named_and_exit_status_1(paceline: Run, log: Path, tmp_path: Path) -> None:
    content = json.loads(gzip.decompress(log.read_bytes()))
    content["log"]["finish_ns"][3] += 1
    (tmp_path / "changed.json").write_text(json.dumps(content))
    done = paceline("conformance", "changed.json", log)
    assert done.returncode == 1
    assert done.stdout.count("changed.json: ") == 2
    assert "request 3: finish (ns) is " in done.stdout


def test_an_absent_log_is_exit_status_2(paceline: Run) -> None:
    done = paceline("conformance", "absent.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "absent.json" in done.stderr
