"""`paceline replay --stream`, and the guide to it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cli.running import Run

CLUSTER = ("--model", "llama-3.1-8b", "--gpu", "h100-sxm")


def test_the_guide_runs_as_it_is_written(paceline: Run, root: Path) -> None:
    text = (root / "docs/guides/large-traces.md").read_text(encoding="utf-8")
    commands = re.findall(r"^paceline (.*)$", text, re.MULTILINE)
    for line in commands:
        done = paceline(*shlex.split(line))
        assert done.returncode == 0, done.stderr
    assert len(commands) == 3
    exec("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), {})


def test_a_streamed_replay_prints_and_saves_what_a_replay_does(paceline: Run, tmp_path: Path) -> None:
    assert paceline("synthesize", "azure-conv", "--requests", "300", "--out", "t.parquet").returncode == 0
    whole = paceline("replay", "t.parquet", *CLUSTER, "--out", "whole")
    parts = paceline("replay", "t.parquet", *CLUSTER, "--stream", "--out", "parts")
    assert (parts.returncode, parts.stdout) == (0, whole.stdout)
    for name in ("summary.parquet", "instances.parquet", "itl.json"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert (tmp_path / "parts/run.toml").read_bytes() == (tmp_path / "whole/run.toml").read_bytes()
    again = paceline("replay", "parts/run.toml", "--stream", "--out", "again")
    assert (again.returncode, again.stdout) == (0, whole.stdout)
    for path in sorted((tmp_path / "parts").iterdir()):
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes(), path.name


def test_a_streamed_run_has_a_path_and_no_rate(paceline: Run, tmp_path: Path) -> None:
    paceline("synthesize", "azure-conv", "--requests", "30", "--out", "t.parquet")
    assert paceline("replay", "t.parquet", *CLUSTER, "--rate=3", "--out", "whole").returncode == 0
    done = paceline("replay", "whole/run.toml", "--stream", "--out", "parts")
    assert (done.returncode, "must be a path and nothing else" in done.stderr) == (2, True)
    assert not (tmp_path / "parts").exists()


@pytest.mark.parametrize(
    "option", ["--rate=3", "--concurrency=4", "--sample=1s", "--slo=ttft=1", "--warmup=1s"]
)
def test_options_that_need_the_whole_trace_are_refused(paceline: Run, option: str) -> None:
    done = paceline("replay", "t.parquet", *CLUSTER, "--stream", "--out", "parts", option)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{option.partition('=')[0]} must be left out with --stream" in done.stderr


def test_a_streamed_replay_needs_a_directory(paceline: Run) -> None:
    paceline("synthesize", "azure-conv", "--requests", "30", "--out", "t.parquet")
    done = paceline("replay", "t.parquet", *CLUSTER, "--stream")
    assert (done.returncode, "--stream needs --out DIR" in done.stderr) == (2, True)
