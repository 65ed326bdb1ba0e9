"""The figures that the docstring of Roofline states, against the measurements they come from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from unit.cost.measured import DECODES, PROMPTS, kernel_errors, mixed_attention_errors, splitwise
from unit.cost.reference import Shape


@pytest.mark.parametrize(
    ("gpu", "shapes", "mean", "least", "greatest"),
    [
        ("rtx-4090", DECODES, -2.2, -9, 2),
        ("rtx-4090", PROMPTS, -2.5, -14, 1),
        ("rtx-pro-6000", DECODES, -1.9, -7, 1),
        ("rtx-pro-6000", PROMPTS, -4.0, -12, 4),
    ],
)
def test_llama_3_1_8b_kernels(
    shared: Path, gpu: str, shapes: list[Shape], mean: float, least: float, greatest: float
) -> None:
    percent = 100 * np.array(kernel_errors(shared / "measured", gpu, shapes))
    assert percent.mean() == pytest.approx(mean, abs=0.06)
    assert (percent.min(), percent.max()) == pytest.approx((least, greatest), abs=0.51)


@pytest.mark.parametrize(("gpu", "added", "longer"), [("rtx-4090", -40, -57), ("rtx-pro-6000", -26, -49)])
def test_decode_and_prefill_attention_add_up_rather_than_overlap(
    shared: Path, gpu: str, added: int, longer: int
) -> None:
    percent = [100 * error for error in mixed_attention_errors(shared / "measured", gpu)]
    assert percent == pytest.approx([added, longer], abs=0.51)


def test_splitwise_llama_2_70b(shared: Path) -> None:
    times = splitwise(shared / "measured").with_columns(
        prompt=100 * (pl.col("prompt_ours") / pl.col("prompt_time") - 1),
        token=100 * (pl.col("token_ours") / pl.col("token_time") - 1),
    )
    means = {
        (hardware, ranks): (prompt, token)
        for hardware, ranks, prompt, token in times.group_by("hardware", "tensor_parallel")
        .agg(pl.col("prompt", "token").mean())
        .iter_rows()
    }
    stated = {
        ("h100-80gb", 2): (-29, -21),
        ("h100-80gb", 4): (-42, -44),
        ("h100-80gb", 8): (-53, -66),
        ("a100-80gb", 2): (-9, -3),
        ("a100-80gb", 4): (-23, -34),
        ("a100-80gb", 8): (-36, -62),
    }
    assert means.keys() == stated.keys()
    for key, expected in stated.items():
        assert means[key] == pytest.approx(expected, abs=0.51), key
