"""Every reader reads a damaged file or raises an error of Paceline's, in bounded memory and time.

`PACELINE_FUZZ_SECONDS` fuzzes each reader for that many seconds. Without it, each reads the same few cases.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings

from fuzz.readers import fuzz
from fuzz.targets import TARGETS, Target, emptied
from paceline.errors import InvariantViolation, PacelineError

SECONDS = float(os.environ.get("PACELINE_FUZZ_SECONDS", "0"))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_damaged_file_is_read_or_refused_with_an_error_of_ours(target: Target, tmp_path: Path) -> None:
    if SECONDS:
        _, _, error = fuzz(target, SECONDS, 1, tmp_path / "case")
        if error is not None:
            raise error
        return

    outcomes = set()

    def case(value: Any) -> None:
        try:
            target.call(emptied(tmp_path / "case"), value)
            outcomes.add("read")
        except InvariantViolation:
            raise
        except PacelineError:
            outcomes.add("refused")

    chosen = settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    seed(0)(chosen(given(target.inputs)(case)))()
    assert "refused" in outcomes
