"""Replays of scanned traces: what they write, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import paceline
from paceline import Affine, Cluster, Concurrency, ConfigError, Instance, ResultError, Trace

CLUSTER = Cluster([Instance(cost=Affine(step_s=0.5), num_blocks=9)])


def scanned(folder: Path, **columns: Any) -> paceline.TraceScan:
    """Return a scan of ten requests, one a second."""
    trace = Trace.from_columns(
        arrival=[float(row) for row in range(10)], prompt_tokens=[8] * 10, output_tokens=[2] * 10, **columns
    )
    trace.write(folder / "ten.parquet")
    return paceline.scan_trace(folder / "ten.parquet", chunk=3)


def test_requests_are_written_in_parts_that_any_reader_reads(tmp_path: Path) -> None:
    result = paceline.replay(scanned(tmp_path), CLUSTER, out=tmp_path / "out")
    parts = sorted(path.name for path in (tmp_path / "out").glob("requests-*.parquet"))
    assert parts == [f"requests-{part:05}.parquet" for part in range(len(parts))]
    assert len(parts) > 1
    # Each takes two steps of half a second, alone.
    rows = pl.scan_parquet(tmp_path / "out" / "requests-*.parquet").select("ttft", "e2e").collect()
    assert rows.rows() == [(0.5, 1.0)] * 10
    assert (len(result), result.totals().finished, result.column("ttft").to_list()) == (10, 10, [0.5] * 10)
    assert result.attainment(paceline.SLO(e2e=1.0)) == 1.0


def test_an_end_leaves_the_rows_that_had_not_arrived(tmp_path: Path) -> None:
    result = paceline.replay(scanned(tmp_path), CLUSTER, until=3.25, out=tmp_path / "out")
    assert result.requests["status"].to_list() == ["finished"] * 3 + ["running"] + ["not_arrived"] * 6


def test_a_trace_in_memory_is_saved_to_out(tmp_path: Path) -> None:
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[8], output_tokens=[2])
    result = paceline.replay(trace, CLUSTER, out=tmp_path / "out")
    assert paceline.load_result(tmp_path / "out") == result


def test_an_error_leaves_no_directory(tmp_path: Path) -> None:
    frame = pl.DataFrame({"arrival": [0.0, 1.0], "prompt_tokens": [8, 8], "output_tokens": [2, 0]})
    frame.write_parquet(tmp_path / "bad.parquet")
    scan = paceline.scan_trace(tmp_path / "bad.parquet", chunk=1, trusted=True)
    with pytest.raises(paceline.TraceError, match="output_tokens must be at least 1"):
        paceline.replay(scan, CLUSTER, out=tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.parquet"]


def test_a_changed_part_is_refused(tmp_path: Path) -> None:
    paceline.replay(scanned(tmp_path), CLUSTER, out=tmp_path / "out")
    part = tmp_path / "out" / "requests-00001.parquet"
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(ResultError, match=r"requests-00001\.parquet: must have \d+ bytes"):
        paceline.load_result(tmp_path / "out")
    lazily = paceline.load_result(tmp_path / "out", lazy=True)
    assert lazily.totals().finished == 10
    with pytest.raises(ResultError, match="requests-00001"):
        lazily.column("ttft")


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"clients": Concurrency(2)}, "clients must be left out where a trace is scanned"),
        ({"sample": 1.0}, "sample must be left out where a trace is scanned"),
        ({"record": (0.0, 1.0)}, "record must be left out where a trace is scanned"),
        ({"out": None}, "out must be a directory where a trace is scanned, was None"),
    ],
)
def test_arguments_that_need_the_whole_trace_are_refused(
    tmp_path: Path, given: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(ConfigError, match=refusal):
        paceline.replay(scanned(tmp_path), CLUSTER, **{"out": tmp_path / "out", **given})


def test_columns_about_other_rows_are_refused(tmp_path: Path) -> None:
    scan = scanned(tmp_path, session=["a"] * 10, think_time=[None] * 10)
    with pytest.raises(ConfigError, match=r"the column session must be left out.*drop=\['session'\]"):
        paceline.replay(scan, CLUSTER, out=tmp_path / "out")
    without = paceline.scan_trace(tmp_path / "ten.parquet", drop=["session", "think_time"])
    assert paceline.replay(without, CLUSTER, out=tmp_path / "out").totals().finished == 10


def test_books_of_prompts_and_acceptance_by_row_are_refused(tmp_path: Path) -> None:
    cluster = Cluster(2 * [Instance(cost=Affine(step_s=0.5), num_blocks=9)])
    with pytest.raises(ConfigError, match=r"routing\.books: must be null where the trace is streamed"):
        paceline.replay(scanned(tmp_path), cluster, paceline.policies.dynamo(), out=tmp_path / "out")
    drafts = paceline.Speculation(tokens=2, acceptance=paceline.FromColumn("ratio"), method="ngram")
    drafting = Cluster([Instance(cost=Affine(step_s=0.5), num_blocks=9, speculation=drafts)])
    scan = scanned(tmp_path, ratio=[1.5] * 10)
    with pytest.raises(ConfigError, match="acceptance of a Speculation must not be a FromColumn"):
        paceline.replay(scan, drafting, out=tmp_path / "out")


def test_progress_is_of_all_rows(tmp_path: Path) -> None:
    trace = paceline.synthesize("azure-conv", requests=60_000, rate=200.0, seed=1)
    trace.write(tmp_path / "t.parquet")
    instance = Instance(model="llama-3.1-8b", gpu="h100-sxm")
    seen: list[tuple[int, int]] = []
    paceline.replay(
        paceline.scan_trace(tmp_path / "t.parquet", chunk=5_000),
        Cluster(16 * [instance]),
        out=tmp_path / "out",
        progress=lambda at: seen.append((at.finished, at.total)),
    )
    assert {total for _, total in seen} <= {60_000}
    assert seen == sorted(seen)
