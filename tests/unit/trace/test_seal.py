"""The checksum inside a written Parquet file."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl
import pytest

from paceline.errors import TraceError
from paceline.trace import Trace, read_trace

TRACE = Trace.from_columns(arrival=[0, 1], prompt_tokens=[5, 6], output_tokens=[7, 8], tenant=["a", None])


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    path = tmp_path / "trace.parquet"
    TRACE.write(path)
    return path


def test_every_single_byte_that_changes_is_noticed_or_harmless(parquet: Path) -> None:
    good = parquet.read_bytes()
    seal = range(good.index(b"paceline seal"), good.index(b"paceline seal") + 16)
    for at in range(4, len(good)):
        parquet.write_bytes(good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1 :])
        if at in seal:
            assert read_trace(parquet) == TRACE
        else:
            with pytest.raises(TraceError, match="changed after it was written"):
                read_trace(parquet)


def test_other_readers_pass_over_the_seal(parquet: Path) -> None:
    assert pl.read_parquet(parquet).equals(TRACE.frame)
    assert pl.scan_parquet(parquet).select("arrival").collect()["arrival"].to_list() == [0.0, 1.0]


def test_parquet_of_another_tool_has_no_seal_and_is_read(parquet: Path) -> None:
    buffer = io.BytesIO()
    TRACE.frame.write_parquet(buffer)
    parquet.write_bytes(buffer.getvalue())
    assert read_trace(parquet) == TRACE
