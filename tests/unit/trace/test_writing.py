"""Written traces read back equal, and are written whole or not at all."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.errors import TraceError
from paceline.trace import Trace, read_trace

SUFFIXES = ["csv", "csv.gz", "csv.zst", "jsonl", "jsonl.gz", "jsonl.zst", "parquet"]

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    n = draw(st.integers(1, 5))

    def column(values: st.SearchStrategy[object]) -> list[object]:
        return draw(st.lists(values, min_size=n, max_size=n))

    columns: dict[str, list[object]] = {
        "arrival": column(st.floats(0, 16_140_900)),
        "prompt_tokens": column(st.integers(4, 2**30 - 1)),
        "output_tokens": column(st.integers(7, 2**30 - 1)),
    }
    optional = {
        "reasoning_tokens": st.integers(0, 7),
        "priority": st.integers(-(2**31), 2**31 - 1),
        "score": st.floats(allow_nan=False, allow_infinity=False),
        "tenant": st.none() | text,
        "model": st.none() | text,
        "adapter": st.none() | text,
        "session": st.none() | text,
        "prefix": st.lists(st.integers(0, 2**64 - 1), max_size=4),
    }
    for name in draw(st.sets(st.sampled_from(sorted(optional)))):
        columns[name] = column(optional[name])
    size = 1 if "prefix" in columns else None
    return Trace.from_columns(**columns, prefix_block_tokens=size)  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trace=traces())
def test_a_written_trace_reads_back_equal(tmp_path: Path, suffix: str, trace: Trace) -> None:
    path = tmp_path / f"trace.{suffix}"
    trace.write(path)
    again = read_trace(path)
    assert again == trace
    assert again.sha256 == trace.sha256


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    trace = Trace.from_columns(arrival=[0, 0.1], prompt_tokens=[1, 2], output_tokens=[3, 4])
    for suffix in SUFFIXES:
        one, two = tmp_path / f"one.{suffix}", tmp_path / f"two.{suffix}"
        trace.write(one)
        trace.write(two)
        assert one.read_bytes() == two.read_bytes()


def test_another_suffix_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    trace = Trace.from_columns(arrival=[0], prompt_tokens=[1], output_tokens=[3])
    for name in ("trace.txt", "trace", "trace.parquet.gz"):
        with pytest.raises(TraceError, match="must end in"):
            trace.write(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_and_no_scratch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace.from_columns(arrival=[0], prompt_tokens=[1], output_tokens=[3])
    path = tmp_path / "trace.csv"
    path.write_text("old")

    def refuse(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="No space left"):
        trace.write(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace.csv"]
    assert path.read_text() == "old"


def test_a_written_file_has_the_permissions_of_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    Trace.from_columns(arrival=[0], prompt_tokens=[1], output_tokens=[3]).write(tmp_path / "trace.csv")
    modes = {stat.S_IMODE(entry.stat().st_mode) for entry in tmp_path.iterdir()}
    assert len(modes) == 1
