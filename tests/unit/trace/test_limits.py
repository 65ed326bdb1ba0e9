"""What reading may take is bounded, before it is taken, by limits that can be raised."""

from __future__ import annotations

import gzip
import os
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from paceline.errors import ConfigError, TraceError
from paceline.limits import Limits
from paceline.trace import read_trace
from paceline.trace.detection import recognise

from .conftest import Written

HEADER = "arrival,prompt_tokens,output_tokens\n"
ROWS = "".join(f"{row},5,6\n" for row in range(200))
PACKERS = [gzip.compress, zstandard.ZstdCompressor().compress]
JSON = '{"arrival":0,"prompt_tokens":5,"output_tokens":6,"prefix":[1],"prefix_block_tokens":5}\n'


@pytest.mark.parametrize("pack", PACKERS)
def test_decompression_stops_at_the_limit(written: Written, pack: Callable[[bytes], bytes]) -> None:
    bomb = written(pack(b"\n" * 50_000_000))
    assert bomb.stat().st_size < 60_000
    tracemalloc.start()
    try:
        with pytest.raises(
            TraceError, match=r"at most 100,000 \(limit file_bytes\), was more.*PACELINE_LIMITS"
        ):
            read_trace(bomb, limits=Limits(file_bytes=100_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # zlib gives out 4 MiB at once.
    assert peak < 20_000_000


@pytest.mark.parametrize("pack", [bytes, *PACKERS])
def test_content_of_just_the_limit_is_read(written: Written, pack: Callable[[bytes], bytes]) -> None:
    text = (HEADER + ROWS).encode()
    path = written(pack(text))
    assert len(read_trace(path, limits=Limits(file_bytes=len(text)))) == 200
    with pytest.raises(TraceError, match="limit file_bytes"):
        read_trace(path, limits=Limits(file_bytes=len(text) - 1))


def test_a_pipe_is_read_up_to_the_limit(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def fill() -> None:
        with pipe.open("wb") as file:
            file.write((HEADER + ROWS).encode())

    for limits, refused in ((Limits(), False), (Limits(file_bytes=100), True)):
        writer = threading.Thread(target=fill)
        writer.start()
        if refused:
            with pytest.raises(TraceError, match="limit file_bytes"):
                read_trace(pipe, limits=limits)
        else:
            assert len(read_trace(pipe, limits=limits)) == 200
        writer.join()


@pytest.mark.parametrize("rest", ["\n" * 1000, ROWS * 5, "\r\n" * 1000])
def test_lines_times_columns_of_csv_are_bounded_before_they_are_parsed(written: Written, rest: str) -> None:
    with pytest.raises(
        TraceError, match=r"lines times columns must be at most 2,999 \(limit values\), was 3,00"
    ):
        read_trace(written(HEADER + "0,5,6\n" + rest + "1,5,6"), limits=Limits(values=2_999))


def test_lines_times_fields_of_json_are_bounded_and_a_list_item_counts_a_quarter(written: Written) -> None:
    path = written(20 * JSON)
    # A line has nineteen fields and four commas.
    assert len(read_trace(path, limits=Limits(values=400))) == 20
    with pytest.raises(TraceError, match=r"lines times fields must be at most 399 \(limit values\), was 400"):
        read_trace(path, limits=Limits(values=399))


@pytest.mark.parametrize(
    "text", [HEADER + "0,5,6\n1," + "5" * 300 + ",6", JSON + JSON.replace("5}", " " * 300 + "5}")]
)
def test_a_long_line_is_refused_by_its_number(written: Written, text: str) -> None:
    with pytest.raises(TraceError, match=r"line 2|line 3"):
        read_trace(written(text), limits=Limits(line_bytes=100))
    with pytest.raises(TraceError, match=r"\(limit line_bytes\), was more"):
        read_trace(written(text), limits=Limits(line_bytes=100))


def test_a_line_of_just_the_limit_is_read(written: Written) -> None:
    longest = len(HEADER) - 1
    assert len(read_trace(written(HEADER + ROWS), limits=Limits(line_bytes=longest))) == 200
    with pytest.raises(TraceError, match="line 1: bytes of the line must be at most"):
        read_trace(written(HEADER + ROWS), limits=Limits(line_bytes=longest - 1))


@pytest.mark.parametrize(
    "first",
    [",".join(f"c{at}" for at in range(5_000)), "{" + ",".join(f'"c{at}":1' for at in range(5_000)) + "}"],
)
def test_columns_are_bounded(first: str) -> None:
    with pytest.raises(
        TraceError, match=r"line 1: columns must be at most 1,000 \(limit columns\), was 5,000"
    ):
        recognise(f"{first}\n1".encode(), "wide", None)


def test_a_wide_header_names_its_repeated_column(written: Written) -> None:
    columns = [*HEADER.strip().split(","), *(f"c{at}" for at in range(30_000)), "c7"]
    with pytest.raises(TraceError, match="has the column 'c7' more than once"):
        read_trace(written(",".join(columns) + "\n"), limits=Limits(columns=40_000))


def test_the_environment_changes_the_defaults(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_LIMITS", "values=10, columns=1_000")
    assert Limits.current() == Limits(values=10)
    with pytest.raises(TraceError, match="limit values"):
        read_trace(written(HEADER + ROWS))
    assert len(read_trace(written(HEADER + ROWS), limits=Limits())) == 200


@pytest.mark.parametrize(
    "text", ["values", "values=-1", "values=1e9", "rows=5", "=", "values=" + "9" * 5000, "values=²"]
)
def test_a_setting_that_is_no_limit_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PACELINE_LIMITS", text)
    with pytest.raises(ConfigError, match="PACELINE_LIMITS must be NAME=VALUE"):
        Limits.current()


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="columns of Limits must be a whole number of at least 1, was 0"):
        Limits(columns=0)
