"""Points of a grid are made when they are asked for, in the order of all combinations."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import polars as pl
import pytest

import paceline
from paceline.errors import ResultError

TRACE = paceline.Trace.from_columns(arrival=[0, 1], prompt_tokens=[8, 8], output_tokens=[4, 4])
CLUSTER = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.5), num_blocks=9)])


def test_points_are_all_combinations_with_the_last_axis_fastest() -> None:
    over = {"policy": ["vllm", "sarathi"], "scale": [1.0, 2.0, 4.0], "settings.until": [1.0, 2.0]}
    grid = paceline.Grid(trace=TRACE, cluster=CLUSTER, over=over)
    points = grid.points()
    assert len(points) == len(grid) == 12
    expected = [dict(zip(over, labels, strict=True)) for labels in product(*over.values())]
    assert [point.labels for point in points] == expected
    assert points[-1].labels == expected[-1]
    assert [point.labels for point in points[2:4]] == expected[2:4]
    with pytest.raises(IndexError):
        points[12]
    # All twelve have the same rows, and four each have them at the same scale.
    assert grid.uses() == (12, 4)


def test_a_grid_of_a_trillion_points_is_there_at_once() -> None:
    values = [1.0 + at for at in range(10**4)]
    axes = ("scale", "settings.until", "settings.sample")
    points = paceline.Grid(trace=TRACE, cluster=CLUSTER, over=dict.fromkeys(axes, values)).points()
    assert len(points) == 10**12
    assert points[10**12 - 1].labels == dict.fromkeys(axes, 1e4)


def test_a_file_of_points_with_another_type_is_named(tmp_path: Path) -> None:
    grid = paceline.Grid(trace=TRACE, cluster=CLUSTER, over={"scale": [1.0, 2.0]})
    paceline.sweep(grid, out=tmp_path, workers=1)
    (file,) = (tmp_path / "points").glob("*.parquet")
    pl.read_parquet(file).with_columns(pl.lit(1).alias("status")).write_parquet(file)
    with pytest.raises(ResultError, match=rf"{file.name}: status must be text, was Int32"):
        paceline.read_sweep(tmp_path)
    with pytest.raises(ResultError, match="status must be text"):
        paceline.sweep(grid, out=tmp_path, workers=1)
