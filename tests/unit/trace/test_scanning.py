"""Traces that are read in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paceline
from paceline import Trace, TraceError, scan_trace
from paceline.synthesis import Bursts, Gamma, Poisson, Regular, synthesize_parts
from paceline.trace.digest import columns_sha256, frame_sha256

TRACE = Trace.from_columns(
    arrival=[0.0, 0.5, 0.5, 2.0, 9.0],
    prompt_tokens=[8, 9, 10, 11, 12],
    output_tokens=[1, 2, 3, 4, 5],
    tenant=["b", None, "a", "b", "a"],
    prefix=[[1, 2], [], [1], [7], []],
    prefix_block_tokens=4,
    note=["x", "", None, "y", "x"],
    weight=[None, 1.5, 2.0, None, 0.0],
)


def written(trace: Trace, folder: Path, *cuts: int) -> Path:
    """Write a trace to a folder, cut into files before these rows."""
    folder.mkdir(exist_ok=True)
    for part, (start, end) in enumerate(zip((0, *cuts), (*cuts, len(trace)), strict=True)):
        trace.with_frame(trace.frame[start:end]).write(folder / f"{part}.parquet")
    return folder


def test_the_chunks_of_several_files_are_the_trace(tmp_path: Path) -> None:
    scan = scan_trace(written(TRACE, tmp_path / "parts", 3), chunk=2)
    chunks = list(scan.chunks())
    assert [len(chunk) for chunk in chunks] == [2, 1, 2]
    assert pl.concat([chunk.frame for chunk in chunks]).equals(TRACE.frame)
    assert (len(scan), scan.name, scan.prefix_block_tokens) == (5, "parts", 4)
    assert scan.names("tenant") == ["a", "b"]
    assert scan.sha256 == TRACE.sha256


def test_a_column_may_be_left_out(tmp_path: Path) -> None:
    TRACE.write(tmp_path / "a.parquet")
    scan = scan_trace(tmp_path / "a.parquet", drop=["prefix", "tenant"])
    assert (scan.columns[:3], scan.prefix_block_tokens) == (
        ("arrival", "prompt_tokens", "output_tokens"),
        None,
    )
    assert scan.sha256 == Trace(TRACE.frame.drop("prefix", "tenant")).sha256


@given(
    cells=st.lists(
        st.tuples(st.sampled_from(["a", "bc", None]), st.lists(st.integers(0, 9), max_size=3), st.booleans()),
        min_size=1,
        max_size=8,
    ),
    chunk=st.integers(1, 4),
)
def test_a_hash_of_parts_is_that_of_the_whole(cells: list[tuple[Any, ...]], chunk: int) -> None:
    frame = pl.DataFrame(
        {
            "tenant": [cell[0] for cell in cells],
            "prefix": [cell[1] for cell in cells],
            "cancel_after_tokens": [None if cell[0] is None else len(cell[1]) for cell in cells],
            "flag": [cell[2] for cell in cells],
            "list": [[cell[0]] for cell in cells],
        },
        schema_overrides={
            "tenant": pl.String,
            "cancel_after_tokens": pl.UInt32,
            "prefix": pl.List(pl.UInt64),
            "list": pl.List(pl.String),
        },
    )

    def parts(name: str) -> Iterator[pl.Series]:
        return (part[name] for part in frame.iter_slices(chunk))

    read = {name: partial(parts, name) for name in frame.columns}
    assert columns_sha256(read, frame.height, 4) == frame_sha256(frame, 4)


def test_arrivals_that_go_back_are_refused_with_their_row(tmp_path: Path) -> None:
    folder = written(TRACE, tmp_path / "parts", 3)
    (folder / "0.parquet").rename(folder / "9.parquet")
    with pytest.raises(
        TraceError, match=r"9\.parquet, row 0 .*must arrive after the row before it.*was 0\.0"
    ):
        list(scan_trace(folder, chunk=2).chunks())


def test_a_row_that_breaks_a_rule_is_named(tmp_path: Path) -> None:
    frame = pl.DataFrame({"arrival": [0.0, 1.0, 2.0], "prompt_tokens": [1, 1, 0], "output_tokens": [1, 1, 1]})
    frame.write_parquet(tmp_path / "a.parquet")
    with pytest.raises(TraceError, match=r"row 2 .*prompt_tokens must be at least 1, was 0"):
        list(scan_trace(tmp_path / "a.parquet", chunk=2, trusted=True).chunks())


def test_files_that_are_no_trace_are_refused(tmp_path: Path) -> None:
    TRACE.frame.write_parquet(tmp_path / "bare.parquet")
    with pytest.raises(TraceError, match=r"has no checksum of Paceline's.*trusted=True"):
        scan_trace(tmp_path / "bare.parquet")
    TRACE.write(tmp_path / "whole.parquet")
    data = bytearray((tmp_path / "whole.parquet").read_bytes())
    data[40] ^= 1
    (tmp_path / "damaged.parquet").write_bytes(data)
    with pytest.raises(TraceError, match="changed after it was written"):
        scan_trace(tmp_path / "damaged.parquet")
    with pytest.raises(TraceError, match=r"must be a \.parquet file or a folder of them"):
        scan_trace(tmp_path / "trace.csv")
    (tmp_path / "none").mkdir()
    with pytest.raises(TraceError, match=r"must hold \.parquet files"):
        scan_trace(tmp_path / "none")
    folder = written(TRACE, tmp_path / "mixed", 3)
    Trace(TRACE.frame.drop("tenant"), prefix_block_tokens=4).write(folder / "2.parquet")
    with pytest.raises(TraceError, match=r"2\.parquet: must have the columns of 0\.parquet"):
        scan_trace(folder)


def test_a_trace_is_drawn_in_parts(tmp_path: Path) -> None:
    for number, arrivals in enumerate((Poisson(), Gamma(cv=2.0), Regular())):
        given = {"requests": 40_000, "rate": 7.0, "seed": 3, "arrivals": arrivals}
        scan = synthesize_parts("azure-conv", tmp_path / f"{number}", rows=17_001, **given)
        assert [len(chunk) for chunk in scan.chunks()] == [17_001, 17_001, 5_998]
        assert scan.sha256 == paceline.synthesize("azure-conv", **given).sha256
    bursts = Bursts(size=3)
    with pytest.raises(paceline.ConfigError, match="arrivals must be Poisson, Gamma or Regular"):
        synthesize_parts("azure-conv", tmp_path / "b", requests=9, seed=1, arrivals=bursts)
