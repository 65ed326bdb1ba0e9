"""Streamed replays that are kept on the way: the same files after any end, and what is refused."""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline import Cluster, ConfigError, Instance, Output, Policy, ResultError

INSTANCE = Instance(model="llama-3.1-8b", gpu="h100-sxm", num_blocks=3_000, max_model_len="auto")
CLUSTER = Cluster(3 * [INSTANCE])


class _EndError(Exception):
    """Ends a replay."""


ON_TWO_H100 = ("--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--instances", "2")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a trace in two files."""
    folder = tmp_path_factory.mktemp("trace") / "t"
    folder.mkdir()
    whole = paceline.synthesize("azure-conv", requests=9_000, rate=60.0, seed=3)
    for part in range(2):
        rows = whole.frame[part * 5_000 : (part + 1) * 5_000]
        columns = {name: rows[name].to_numpy() for name in ("arrival", "prompt_tokens", "output_tokens")}
        paceline.Trace.from_columns(**columns).write(folder / f"{part}.parquet")
    return folder


def files(folder: Path) -> dict[str, bytes]:
    """Return the files of a directory by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def replayed(trace: Path, out: Path, **given: Any) -> None:
    """Replay the trace in chunks of 500 requests, kept after each 1,000."""
    arguments = {"chunk": 500, "checkpoint": 1_000, "policy": paceline.policies.vllm()} | given
    scan = paceline.scan_trace(trace, chunk=arguments.pop("chunk"))
    output = Output(out, arguments.pop("checkpoint"))
    paceline.replay(scan, CLUSTER, arguments.pop("policy"), out=output, **arguments)


def ended_after(
    checkpoints: int, trace: Path, out: Path, monkeypatch: pytest.MonkeyPatch, **given: Any
) -> None:
    """End a replay as it has so many checkpoints."""
    from paceline.streaming.checkpoints import Checkpoints

    kept: list[int] = []
    keep = Checkpoints.keep

    def counted(self: Checkpoints, *of: Any) -> None:
        keep(self, *of)
        kept.append(1)
        if len(kept) == checkpoints:
            raise _EndError

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoints, "keep", counted)
        with pytest.raises(_EndError):
            replayed(trace, out, **given)


@pytest.mark.parametrize(
    "policy",
    [paceline.policies.vllm(), paceline.policies.pascal(), paceline.policies.sarathi()],
    ids=lambda policy: policy.name,
)
def test_a_replay_that_goes_on_writes_the_same_files(
    trace: Path, tmp_path: Path, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed(trace, tmp_path / "whole", checkpoint=None, policy=policy)
    for checkpoints in (1, 3):
        ended_after(checkpoints, trace, tmp_path / "out", monkeypatch, policy=policy)
        assert not (tmp_path / "out").exists()
    replayed(trace, tmp_path / "out", policy=policy)
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "whole"]


def test_it_goes_on_and_does_not_begin_anew(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_after(4, trace, tmp_path / "out", monkeypatch)
    first = tmp_path / ".out.checkpoint" / "requests-00000.parquet"
    before = first.stat().st_mtime_ns
    replayed(trace, tmp_path / "out")
    assert (tmp_path / "out" / first.name).stat().st_mtime_ns == before


def test_the_draft_of_a_checkpoint_that_was_not_written_whole_is_removed(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_after(8, trace, tmp_path / "out", monkeypatch)
    draft = tmp_path / ".out.checkpoint" / ".state-00008.0123456789ab.partial"
    draft.mkdir()
    (draft / "engine.bin").write_bytes(b"half")
    # No further checkpoint is due, whose writing would remove it.
    replayed(trace, tmp_path / "out", checkpoint=100_000)
    replayed(trace, tmp_path / "whole", checkpoint=None)
    assert files(tmp_path / "out") == files(tmp_path / "whole")


_KILLED = """
import os, signal, sys
import paceline
from paceline.streaming.checkpoints import Checkpoints

keep = Checkpoints.keep

def killed(self, *of):
    keep(self, *of)
    os.kill(os.getpid(), signal.SIGKILL)

Checkpoints.keep = killed
instance = paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm", num_blocks=3_000, max_model_len="auto")
scan = paceline.scan_trace(sys.argv[1], chunk=500)
paceline.replay(scan, paceline.Cluster(3 * [instance]), out=paceline.Output(sys.argv[2], checkpoint=4_000))
"""


def test_a_killed_process_is_continued(trace: Path, tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", _KILLED, trace, tmp_path / "out"], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == [".out.checkpoint"]
    replayed(trace, tmp_path / "out", checkpoint=4_000)
    replayed(trace, tmp_path / "whole", checkpoint=None)
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_a_command_that_was_killed_before_its_first_checkpoint_does_not_continue(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from paceline.cli import main

    killed = tmp_path / ".out.checkpoint"
    killed.mkdir()
    (killed / "requests-00000.parquet").write_bytes(b"a part")
    words = ["replay", str(trace), *ON_TWO_H100, "--stream", "--out", str(tmp_path / "out")]
    assert main([*words, "--checkpoint", "3000"]) == 0
    assert "continues" not in capsys.readouterr().err
    assert not killed.exists()


def test_a_command_says_that_it_is_kept_and_that_it_continues(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from paceline.cli import main
    from paceline.streaming.checkpoints import Checkpoints

    monkeypatch.setattr("paceline.runs.run.scan_trace", partial(paceline.scan_trace, chunk=500))
    words = ["replay", str(trace), *ON_TWO_H100, "--stream"]
    keep = Checkpoints.keep

    def interrupted(self: Checkpoints, *of: Any) -> None:
        keep(self, *of)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoints, "keep", interrupted)
        assert main([*words, "--out", str(tmp_path / "out"), "--checkpoint", "3000"]) == 130
    said = capsys.readouterr().err
    assert f"kept the last checkpoint in {tmp_path / '.out.checkpoint'}; the same command continues" in said
    assert main([*words, "--out", str(tmp_path / "out"), "--checkpoint", "3000"]) == 0
    assert f"continues from the checkpoint in {tmp_path / '.out.checkpoint'}" in capsys.readouterr().err
    assert main([*words, "--out", str(tmp_path / "whole")]) == 0
    assert files(tmp_path / "out") == files(tmp_path / "whole")


@pytest.mark.parametrize(
    ("other", "word"),
    [
        ({"policy": paceline.policies.sarathi()}, "another policy;"),
        ({"until": 100.0}, "another settings;"),
        ({"chunk": 250, "until": 100.0}, "another chunk of the scan and another settings;"),
    ],
)
def test_a_checkpoint_of_another_replay_is_refused_and_left_alone(
    trace: Path, tmp_path: Path, other: dict[str, Any], word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_after(4, trace, tmp_path / "out", monkeypatch)
    with pytest.raises(ResultError, match=word):
        replayed(trace, tmp_path / "out", **other)
    assert (tmp_path / ".out.checkpoint" / "state-00003" / "engine.bin").exists()


@pytest.mark.parametrize(
    "name", ["state-00003/engine.bin", "state-00003/open.parquet", "requests-00000.parquet"]
)
def test_a_damaged_checkpoint_is_refused(
    trace: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_after(4, trace, tmp_path / "out", monkeypatch)
    path = tmp_path / ".out.checkpoint" / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ResultError, match=rf"{path.name}: must have \d+ bytes"):
        replayed(trace, tmp_path / "out")


def test_an_end_before_the_first_checkpoint_leaves_nothing(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(*_: object) -> None:
        raise _EndError

    monkeypatch.setattr("paceline.streaming.checkpoints.Checkpoints.due", ends)
    with pytest.raises(_EndError):
        replayed(trace, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_clean_removes_what_is_kept_if_it_is_asked_to(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from paceline.cli import main

    ended_after(1, trace, tmp_path / "out", monkeypatch)
    assert main(["clean", str(tmp_path)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == [".out.checkpoint"]
    assert main(["clean", str(tmp_path), "--checkpoints", "--dry-run"]) == 0
    assert f"would remove {tmp_path / '.out.checkpoint'}" in capsys.readouterr().out
    assert main(["clean", str(tmp_path), "--checkpoints"]) == 0
    assert list(tmp_path.iterdir()) == []


def test_python_rules_are_refused(trace: Path, tmp_path: Path) -> None:
    policy = Policy(name="first", scheduler=paceline.policies.vllm().schedulers[0], on_arrival=lambda *_: 0)
    with pytest.raises(ConfigError, match="checkpoint must be left out where a rule is a Python function"):
        replayed(trace, tmp_path / "out", policy=policy)


def test_a_checkpoint_is_at_least_one_request() -> None:
    with pytest.raises(ConfigError, match="checkpoint must be at least 1 request, or None, was 0"):
        Output("out", checkpoint=0)
