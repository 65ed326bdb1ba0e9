"""What every test may use: Hypothesis profiles, the `slow` mark, and the folder of real data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]
THOROUGH = os.environ.get("PACELINE_TESTS", "fast") == "thorough"

# No deadline: a duration says more about the machine than about the code. The fast profile draws the same
# examples every time, so that a change is judged by what it changed; the thorough one keeps looking.
settings.register_profile(
    "fast",
    max_examples=40,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("thorough" if THOROUGH else "fast")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the slow tests to the thorough profile."""
    if THOROUGH:
        return
    skip = pytest.mark.skip(reason="slow: run with PACELINE_TESTS=thorough")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of real traces, decision logs and measurements that lies beside the checkout."""
    folder = ROOT.parent / "shared"
    if not (folder / "traces").is_dir():
        pytest.skip("needs the real data in ../shared, which is not beside this checkout")
    return folder
