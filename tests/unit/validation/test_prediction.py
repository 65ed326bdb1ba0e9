"""The two measured runs, replayed by the engine: means are within the stated tolerance."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.validation import validate
from paceline.validation.prediction import decides_ahead


@pytest.mark.parametrize("name", ["rtx4090-llama-3.1-8b", "rtxpro6000-llama-3.1-8b"])
def test_means_are_as_measured(shared: Path, name: str) -> None:
    folder = shared / "measured" / name
    if not folder.is_dir():
        pytest.skip(f"needs ../shared/measured/{name}, which is not beside this checkout")
    comparison = validate(folder)
    assert abs(comparison.error("tpot", "mean")) < 0.01
    assert abs(comparison.error("e2e", "mean")) < 0.01
    assert abs(comparison.error("ttft", "mean")) < 0.04


@pytest.mark.parametrize(
    ("version", "ahead"),
    [("0.11.0", False), ("0.13.0", False), ("0.14.0", True), ("0.19.0", True), ("", True)],
)
def test_engines_decide_ahead_since_0_14(version: str, ahead: bool) -> None:
    assert decides_ahead(version) is ahead
