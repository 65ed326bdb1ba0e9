"""The frame of a sweep with a dataset is read from the disk, in the order of the grid."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import paceline
from paceline.errors import ResultError
from paceline.sweeping import running

TRACE = paceline.Trace.from_columns(arrival=[0, 1], prompt_tokens=[8, 8], output_tokens=[4, 4])
CLUSTER = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.5), num_blocks=9)])
OVER = {"policy": ["vllm", "sarathi"], "settings.until": [0.25, None], "scale": [1, 2.0]}


def grid(**changes: object) -> paceline.Grid:
    over = {**OVER, **{"policy.luck": [1, None]}} if changes.get("failing") else OVER
    return paceline.Grid(trace=TRACE, cluster=CLUSTER, over=over, slo=paceline.SLO(ttft=1.0))


@pytest.mark.parametrize("failing", [False, True], ids=["all done", "half failed"])
def test_rows_from_the_disk_are_those_that_were_measured(
    failing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = paceline.sweep(grid(failing=failing), workers=2)
    monkeypatch.setattr(running, "_SOON", 0)
    read = paceline.sweep(grid(failing=failing), out=tmp_path / "s", workers=2)
    assert "frame" not in vars(read)
    assert read.points == held.points == len(grid(failing=failing))
    assert read.failures == held.failed.height == (8 if failing else 0)
    assert read.frame.equals(held.frame)
    again = paceline.sweep(grid(failing=failing), out=tmp_path / "s", workers=2)
    assert again.kept == 8
    assert again.frame.equals(held.frame)


def test_a_small_sweep_has_its_rows_also_without_its_folder(tmp_path: Path) -> None:
    found = paceline.sweep(grid(), out=tmp_path / "s", workers=1)
    for file in (tmp_path / "s/points").iterdir():
        file.unlink()
    assert found.frame.height == 8


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (pl.lit("x").alias("ttft_p50"), "ttft_p50 must be numbers, was String"),
        (pl.lit([1]).alias("scale"), "scale must be numbers, truth values or text, was List"),
        (pl.lit("zz").alias("id"), "id must have 32 hexadecimal digits, had 'zz'"),
    ],
)
def test_a_file_with_a_column_of_another_type_is_named(change: pl.Expr, words: str, tmp_path: Path) -> None:
    paceline.sweep(grid(), out=tmp_path, workers=1)
    file = next(iter((tmp_path / "points").glob("*.parquet")))
    pl.read_parquet(file).with_columns(change).write_parquet(file)
    for call in (lambda: paceline.read_sweep(tmp_path), lambda: paceline.sweep(grid(), out=tmp_path)):
        with pytest.raises(ResultError, match=words) as caught:
            call()
        assert file.name in str(caught.value)
