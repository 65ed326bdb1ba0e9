"""The report of a sweep: its axes, its intervals over seeds, and the command."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import paceline
from paceline.errors import ResultError
from paceline.report import write_sweep_report
from paceline.report.sweeps import axes_of, summarised, sweep_page
from paceline.sweeping.dataset import read_sweep


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sweep") / "rates"
    grid = paceline.Grid(
        trace={"preset": "azure-conv", "requests": 30},
        cluster=paceline.Cluster([paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")]),
        over={"policy": ["vllm", "fcfs"], "rate": [1.0, 4.0], "seed": [1, 2, 3]},
        slo=paceline.SLO(ttft=0.5),
    )
    paceline.sweep(grid, out=out)
    return out


def test_figures_are_drawn_against_the_rate(folder: Path) -> None:
    rows = read_sweep(folder)
    assert axes_of(rows) == ("rate", ["policy"])
    assert axes_of(rows.filter(pl.col("rate") == 1.0)) == (None, ["policy"])


def test_points_that_differ_by_seed_are_one_with_an_interval(folder: Path) -> None:
    rows = read_sweep(folder)
    frame = summarised(rows, "ttft_p99", "rate", ["policy"])
    assert frame.select("series", "rate", "replays").rows() == [
        ("fcfs", 1.0, 3),
        ("fcfs", 4.0, 3),
        ("vllm", 1.0, 3),
        ("vllm", 4.0, 3),
    ]
    of = rows.filter((pl.col("policy") == "vllm") & (pl.col("rate") == 4.0))["ttft_p99"]
    last = frame.row(-1, named=True)
    # Student's t at 95% with two degrees of freedom is 4.303.
    reach = 4.303 * float(of.std() or 0.0) / 3**0.5  # type: ignore[arg-type] # a column of floats
    assert last["mean"] == pytest.approx(of.mean())
    assert last["high"] - last["mean"] == pytest.approx(reach, rel=1e-3)
    single = summarised(rows.filter(pl.col("seed") == 1), "ttft_p99", "rate", ["policy"])
    assert single["low"].null_count() == single.height, "one replay says nothing about another"


def test_the_command_writes_the_report_of_a_sweep(folder: Path, tmp_path: Path) -> None:
    from paceline.cli import main

    out = tmp_path / "rates.html"
    assert main(["report", str(folder), "--out", str(out), "--quiet"]) == 0
    text = out.read_text()
    assert "12 replays; varied: rate, policy; 3 seeds each." in text
    assert "Attainment by rate" in text
    assert main(["report", str(folder), "--out", str(out), "--slo", "ttft=1"]) == 2


def test_failed_points_are_said_and_a_sweep_without_points_is_refused(folder: Path, tmp_path: Path) -> None:
    rows = read_sweep(folder)
    half = rows.with_columns(status=pl.when(pl.col("seed") == 1).then(pl.lit("failed")).otherwise("status"))
    assert "4 points failed or are missing" in sweep_page(half)
    with pytest.raises(ResultError, match="must have a point that has been replayed"):
        sweep_page(rows.with_columns(status=pl.lit("failed")))
    with pytest.raises(ResultError, match="must be the folder of a sweep"):
        write_sweep_report(tmp_path, tmp_path / "x.html")
