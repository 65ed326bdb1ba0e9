"""Prompts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from paceline.rank.examples import read_examples


@pytest.fixture(scope="session")
def alpaca(data: Path) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Return Stanford Alpaca's prompts, or drawn ones in its format, with the words of their outputs."""
    samples = read_examples([data / "traces/alpaca_5000.json.zst"])
    return samples.prompts, samples.lengths
