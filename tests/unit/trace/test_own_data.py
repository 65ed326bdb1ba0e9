"""A user's own table: dates as arrivals, other names, and columns that are kept."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from paceline import Trace, read_trace
from paceline.errors import TraceError, TraceWarning

LENGTHS = {"prompt_tokens": [5, 6], "output_tokens": [7, 8]}
NOON = datetime(2026, 1, 1, 12)
PARIS = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("arrival", "seconds"),
    [
        ([NOON, NOON + timedelta(microseconds=1)], [0.0, 1e-6]),
        ([NOON + timedelta(seconds=3), NOON], [0.0, 3.0]),
        ([datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 14, tzinfo=PARIS)], [0.0, 3600.0]),
        ([date(2026, 1, 1), date(2026, 1, 3)], [0.0, 172_800.0]),
        ([timedelta(seconds=2), timedelta(seconds=5)], [2.0, 5.0]),
        (np.array(["2026-01-01T00", "2026-01-01T01"], dtype="datetime64[ns]"), [0.0, 3600.0]),
        (pl.Series([NOON, NOON + timedelta(days=1)], dtype=pl.Datetime("ms")), [0.0, 86_400.0]),
    ],
)
def test_dates_are_seconds_since_the_first(arrival: Any, seconds: list[float]) -> None:
    assert Trace.from_columns(arrival=arrival, **LENGTHS).frame["arrival"].to_list() == seconds


def test_a_hundred_days_in_nanoseconds_keep_their_last_digit() -> None:
    start = np.datetime64("2026-01-01T00:00:00", "ns")
    later = start + np.timedelta64(100 * 86_400 * 10**9 + 500_000_000, "ns")
    trace = Trace.from_columns(arrival=np.array([start, later]), **LENGTHS)
    assert trace.frame["arrival"].to_list() == [0.0, 8_640_000.5]


def test_dates_as_text_are_told_to_be_dates() -> None:
    frame = pl.DataFrame({"arrival": ["2026-01-01", "2026-01-02"], **LENGTHS})
    with pytest.raises(TraceError, match="arrival must hold seconds, or dates, was text such as"):
        Trace(frame)


def test_dates_in_a_file_are_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "arrival,prompt_tokens,output_tokens\n2026-01-01 00:00:01,5,6\n2026-01-01 00:00:03.5,7,8\n"
    )
    assert read_trace(tmp_path / "t.csv").frame["arrival"].to_list() == [0.0, 2.5]


def test_whole_numbers_name_tenants_and_sessions() -> None:
    trace = Trace.from_columns(arrival=[0.0, 1.0], tenant=[7, None], session=np.array([1, 2]), **LENGTHS)
    assert trace.frame.select("tenant", "session").rows() == [("7", "1"), (None, "2")]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".csv.zst"])
def test_a_file_may_name_its_columns_otherwise(tmp_path: Path, suffix: str) -> None:
    further = {"region": ["eu", "us"], "deadline": [0.5, None], "retries": [0, 3], "paid": [True, False]}
    own = Trace.from_columns(arrival=[0.0, 1.5], **LENGTHS, **further)
    own.write(tmp_path / f"own{suffix}")
    assert read_trace(tmp_path / f"own{suffix}") == own
    names = {"arrival": "sent at", "prompt_tokens": "in"}
    table = own.frame.rename(names)
    if suffix == ".parquet":
        table.write_parquet(tmp_path / "theirs.parquet")
    elif suffix == ".jsonl":
        table.write_ndjson(tmp_path / "theirs.jsonl")
    else:
        table.write_csv(tmp_path / "theirs.csv")
    (file,) = tmp_path.glob("theirs.*")
    assert read_trace(file, columns=names) == own
    with pytest.raises(TraceError, match="columns: there is no column 'sent_at'"):
        read_trace(file, columns={"arrival": "sent_at"})


def test_a_frame_of_another_library_is_a_trace() -> None:
    class Exported:
        def __init__(self, frame: pl.DataFrame) -> None:
            self.frame = frame

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return self.frame.__arrow_c_stream__(requested_schema)

    frame = pl.DataFrame({"sent": [NOON, NOON + timedelta(seconds=2)], **LENGTHS, "kind": ["a", "b"]})
    trace = Trace.from_frame(Exported(frame), columns={"arrival": "sent"})
    assert trace.frame.rows() == [(0.0, 5, 7, "a"), (2.0, 6, 8, "b")]
    assert Trace.from_frame(frame.lazy(), columns={"arrival": "sent"}) == trace
    with pytest.raises(TraceError, match=r"must be a table of polars, pandas or Arrow, was \[1, 2\]"):
        Trace.from_frame([1, 2])


def test_further_columns_stay_with_their_rows() -> None:
    trace = Trace.from_columns(arrival=[1.0, 0.0], region=["eu", "us"], **LENGTHS)
    assert trace.frame["region"].to_list() == ["us", "eu"]
    assert trace.window(0.0, 0.5).frame["region"].to_list() == ["us"]
    assert trace.scaled(2).frame["region"].to_list() == ["us", "eu"]
    plain = Trace.from_columns(arrival=[0.0], prompt_tokens=[1], output_tokens=[1])
    assert Trace.concat([trace, plain]).frame["region"].to_list() == ["us", "eu", None]
    other = Trace.from_columns(arrival=[1.0, 0.0], region=["eu", "eu"], **LENGTHS)
    assert other.sha256 != trace.sha256


def test_a_name_that_is_nearly_one_of_the_schema_is_warned_about() -> None:
    with pytest.warns(TraceWarning, match="column 'priorty' is kept as it is, and not taken for 'priority'"):
        Trace.from_columns(arrival=[0.0, 1.0], priorty=[1, 2], **LENGTHS)
