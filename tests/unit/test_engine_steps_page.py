"""docs/engine-steps.md: an engine that ran on a GPU, against kernels measured one by one on the same GPU."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> Mapping[str, Callable[[], Any]]:
    return runpy.run_path(str(ROOT / "docs/engine_steps.py"))


def test_kernels_add_up_to_the_steps_of_the_engine(script: Mapping[str, Callable[[], Any]]) -> None:
    steps = script["decodes"]()
    assert steps.height == 30
    # Between two points of the profile a product of 192 rows takes the next tile's time already.
    near = steps.filter(steps["running"] != 192)["error"]
    assert near.abs().max() < 0.04
    assert -0.03 < float(near.median()) < 0.0
    assert steps["error"].abs().max() < 0.08


def test_capped_clients_are_predicted_without_a_fit(script: Mapping[str, Callable[[], Any]]) -> None:
    means = script["closed"]()
    assert means["requests"].to_list() == [4, 24, 80, 300, 512]
    for name, most in (("e2e", 0.03), ("tpot", 0.05), ("ttft", 0.16)):
        errors = means[f"{name}_predicted"] / means[name] - 1
        assert errors.abs().max() < most, name


def test_the_page_is_the_output_of_the_command(script: Mapping[str, Callable[[], Any]]) -> None:
    page = (ROOT / "docs/engine-steps.md").read_text(encoding="utf-8")
    for name, rows in script["tables"]().items():
        assert "\n".join(rows) in page, name
