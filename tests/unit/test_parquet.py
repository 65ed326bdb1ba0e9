"""Foreign Parquet is parsed in a child process first, so that a crash there is an error here."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl
import pytest

from paceline import _parquet, _parquet_child
from paceline._parquet import read_foreign
from paceline.errors import ConfigError, TraceError
from paceline.limits import Limits
from paceline.trace import Trace, read_trace

FRAME = pl.DataFrame({"arrival": [0.0, 1.0], "prompt_tokens": [5, 6], "output_tokens": [7, 8]})


def parquet(frame: pl.DataFrame = FRAME) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> _parquet._Child:
    """Return a child process of the test's own, used instead of the shared one."""
    own = _parquet._Child()
    monkeypatch.setattr(_parquet, "_CHILD", own)
    yield own
    own.close()


def test_a_file_of_another_tool_is_read() -> None:
    assert read_foreign(parquet(), "x", error=ConfigError).equals(FRAME)


@pytest.mark.usefixtures("child")
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os; os.abort()", r"x: is no readable Parquet file: it ends the process .*\(signal 6\)"),
        ("import os; os._exit(3)", r"it ends the process that reads it \(exit status 3\)"),
        ("import sys; sys.stdin.buffer.read(24); import os; os.kill(os.getpid(), 9)", r"\(signal 9\)"),
    ],
)
def test_a_crash_while_parsing_is_an_error_and_the_next_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    (tmp_path / "crash.py").write_text(code)
    with monkeypatch.context() as patch:
        patch.setattr(_parquet_child, "__file__", str(tmp_path / "crash.py"))
        with pytest.raises(TraceError, match=message):
            read_foreign(parquet(), "x", error=TraceError)
    assert read_foreign(parquet(), "x", error=TraceError).equals(FRAME)


@pytest.mark.usefixtures("child")
def test_a_file_that_never_ends_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow.py").write_text("import sys, time; sys.stdin.buffer.read(); time.sleep(600)")
    monkeypatch.setattr(_parquet_child, "__file__", str(tmp_path / "slow.py"))
    monkeypatch.setattr(_parquet, "_TIMEOUT_S", 0.2)
    with pytest.raises(TraceError, match=r"ends the process that reads it \(signal 9\)"):
        read_foreign(parquet(), "x", error=TraceError)


def test_a_child_that_has_ended_is_started_again(child: _parquet._Child) -> None:
    read_foreign(parquet(), "x", error=TraceError)
    assert child._process is not None
    child._process.kill()
    child._process.wait()
    assert read_foreign(parquet(), "x", error=TraceError).equals(FRAME)


@pytest.mark.parametrize("data", [b"", b"PAR1", parquet()[:-1], b"x" + parquet()])
def test_what_has_no_mark_at_either_end_is_refused_without_a_child(data: bytes) -> None:
    with pytest.raises(TraceError, match="must start and end with PAR1"):
        read_foreign(data, "x", error=TraceError)


def test_a_file_that_unfolds_into_more_values_than_the_limit_is_refused_before_it_does() -> None:
    bomb = parquet(pl.DataFrame({"a": pl.repeat(1, 3_000_000, eager=True)}))
    assert len(bomb) < 20_000
    with pytest.raises(
        TraceError, match=r"rows times columns must be at most 1,000 \(limit values\), was 3,000,000"
    ):
        read_foreign(bomb, "x", error=TraceError, limits=Limits(values=1_000))
    with pytest.raises(TraceError, match=r"columns must be at most 2 \(limit columns\), was 3"):
        read_foreign(parquet(), "x", error=TraceError, limits=Limits(columns=2))


def test_a_trace_that_paceline_wrote_needs_no_child(tmp_path: Path, child: _parquet._Child) -> None:
    Trace(FRAME).write(tmp_path / "t.parquet")
    assert len(read_trace(tmp_path / "t.parquet")) == 2
    assert child._process is None
