"""Fitting the roofline to sizes that were measured, on times made by a roofline that is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from paceline.errors import ConfigError
from paceline.kernels import read_all_reduce
from paceline.validation.splitwise import fit_link, fit_roofline, read_splitwise

pytest.importorskip("scipy")

SIZES = [(128, 1), (256, 1), (512, 1), (512, 4), (512, 16), (2048, 1), (4096, 1)]


def write(folder: Path, times: dict[tuple[int, int, int], tuple[float, float]]) -> Path:
    """Write a file of these times in seconds, with repetitions, other models and capped GPUs around them."""
    rows = [
        {"model": model, "hardware": gpu, "prompt_size": prompt, "batch_size": batch, "token_size": 16,
         "prompt_time": 1e3 * first * noise, "token_time": 1e3 * later * noise, "tensor_parallel": ranks}
        for (ranks, prompt, batch), (first, later) in times.items()
        for model, gpu, noise in (
            ("llama2-70b", "h100-80gb", 1.0), ("llama2-70b", "h100-80gb", 0.9),
            ("llama2-70b", "h100-80gb", 1.2),
            ("llama2-70b", "h100-80gb-pcap", 9.0), ("bloom-176b", "h100-80gb", 9.0),
        )
    ]  # fmt: skip
    pl.DataFrame(rows).write_csv(folder / "perf_model.csv")
    return folder


def made(folder: Path, **numbers: float) -> Path:
    """Write what a fit with these numbers would predict."""
    placeholder = write(folder, {(ranks, *size): (1.0, 1.0) for ranks in (2, 8) for size in SIZES})
    cells = read_splitwise(placeholder)
    known = fit_roofline(cells, "h100-sxm", fixed=numbers)
    return write(
        folder,
        {
            (cell.tensor_parallel, cell.prompt_tokens, cell.batch): (first, later)
            for cell, (first, later) in zip(known.cells, known.predicted.tolist(), strict=True)
        },
    )


def test_every_other_size_is_held_out_at_every_degree_of_parallelism(tmp_path: Path) -> None:
    cells = read_splitwise(write(tmp_path, {(r, *size): (1.0, 0.1) for r in (2, 4) for size in SIZES}))
    halves = {(cell.prompt_tokens, cell.batch): cell.held_out for cell in cells}
    assert [halves[size] for size in SIZES] == [False, True, False, True, False, True, False]
    assert len(cells) == 2 * len(SIZES)
    assert {(cell.prompt_s, cell.token_s) for cell in cells} == {(1.0, 0.1)}


def test_a_batch_faster_than_half_of_it_is_odd_and_in_neither_half(tmp_path: Path) -> None:
    times = {(2, 512, b): (0.1 * b, 0.1) for b in (1, 2, 4)} | {(2, 512, 8): (0.3, 0.1)}
    cells = read_splitwise(write(tmp_path, times))
    assert [cell.odd for cell in cells] == ["", "", "", "shorter than 4 prompts"]


def test_the_numbers_behind_made_up_times_are_found_again(tmp_path: Path) -> None:
    numbers = {
        "memory": 0.5,
        "matmul": 0.4,
        "launch_s": 0.02,
        "request_s": 1e-3,
        "prompts_s": 0.02,
        "ring": 0.2,
    }
    fit = fit_roofline(read_splitwise(made(tmp_path, **numbers)), "h100-sxm")
    assert fit.fitted["matmul"] == pytest.approx(0.4, rel=0.02)
    assert fit.fitted["request_s"] == pytest.approx(1e-3, rel=0.02)
    assert np.abs(fit.errors(held_out=True)).max() < 0.02


def test_a_link_is_found_from_reductions(root: Path) -> None:
    # The stand-in's rings wait for 30 us, and move 45 of the link's 450 GB/s.
    file = root / "tests/data/measured/vidur/h100_dgx.all_reduce.csv.zst"
    curves = {ranks: read_all_reduce(file, ranks=ranks) for ranks in (2, 8)}
    share, least = fit_link(curves, 450e9)
    assert (share, least) == (pytest.approx(0.1, rel=1e-3), pytest.approx(3e-5, rel=1e-3))


def test_what_is_no_such_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "perf_model.csv").write_text("model,hardware\n")
    with pytest.raises(ConfigError, match="lacked tensor_parallel, prompt_size"):
        read_splitwise(tmp_path)
    write(tmp_path, {(2, 128, 1): (1.0, 1.0)})
    frame = pl.read_csv(tmp_path / "perf_model.csv").filter(pl.col("model") == "bloom-176b")
    frame.write_csv(tmp_path / "perf_model.csv")
    with pytest.raises(ConfigError, match="must have rows of llama2-70b"):
        read_splitwise(tmp_path)


def test_the_other_half_of_what_was_measured_is_near(shared: Path) -> None:
    """Bounds are round numbers above what the fit reaches; the form of the roofline is what is tested."""
    folder = shared / "measured" / "splitwise"
    if not folder.is_dir():
        pytest.skip("needs ../shared/measured/splitwise, which is not beside this checkout")
    cells = read_splitwise(folder)
    for gpu, reductions in (("h100-sxm", shared / "measured" / "vidur"), ("a100-80gb", None)):
        fit = fit_roofline(cells, gpu, reductions=reductions)
        prompt, token = np.abs(fit.errors(held_out=True)).mean(0)
        assert prompt < 0.15
        assert token < 0.05
    assert [replace(cell).batch for cell in cells if cell.odd] == [64, 64]
