"""What all tests share: Hypothesis profiles, the `slow` mark, the garbage collector, and real data."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]
THOROUGH = os.environ.get("PACELINE_TESTS", "fast") == "thorough"

# A replay in a test has few rows: to hand them to threads takes longer than the work on them, and each core
# has a worker of its own. `tests/properties/test_same_bytes.py` compares the results of several threads.
for threads in ("POLARS_MAX_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

# What collecting makes stays until the end, so that there is no garbage to look for before
# `pytest_collection_finish`.
gc.disable()

# Under `pytest -n`, a worker runs all tests of a file, which share fixtures, replays, draws or pages, or all
# doctests of a package. The tests of these share nothing, and some take long: each goes to the worker that is
# free first. To hand out every test by itself took the process that does so half a minute.
APART = (
    "tests/conformance/",
    "tests/differential/",
    "tests/properties/",
    "tests/search/",
    "tests/unit/policies/test_every_policy.py",
)
# These files share one quick run of a study, and a worker.
SHARE_A_STUDY = ("tests/unit/study/test_layered_prefill.py", "tests/cli/test_study.py")
# These start before all others, so that no worker is left alone with one at the end.
START_FIRST = ("tests/search/test_search.py", "tests/unit/test_stubs.py")

# No deadline: a duration depends on the machine more than on the code. The fast profile draws the same
# examples each time, so that a failure comes from a change; the thorough profile draws others each time. The
# number of fast examples is a budget of time: tests named `test_the_cases_reach_...` check that drawn cases
# contain what they are for, and `make search` draws as many cases as its time allows.
settings.register_profile(
    "fast",
    max_examples=25,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("thorough" if THOROUGH else "fast")


def pytest_collection_finish() -> None:
    """Keep what collecting made out of the garbage collector.

    It would be gone through again in every full collection, which took a third of the time of tests that read
    large logs.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 50)


def group(nodeid: str) -> str:
    """Return what shares a worker with a test: a study, a file or a package, or the test alone."""
    file = nodeid.partition("::")[0]
    if file in SHARE_A_STUDY:
        return "layered-prefill"
    if file.startswith(APART):
        return nodeid
    return file if file.startswith("tests/") else file.rpartition("/")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give the tests of a group to one worker.

    The mark ``xdist_group`` does nothing with pytest 9.2: pytest-xdist 3.8 appends the group to the id of a
    test in a place that pytest no longer reads (pytest-dev/pytest-xdist, issue 1386).
    """
    from xdist.scheduler import LoadScopeScheduling

    class Grouped(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    # The groups with the most tests would come first, and the longest tests last.
    config.option.loadscopereorder = False
    return Grouped(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip slow tests outside the thorough profile, and put the longest tests first."""
    skip = pytest.mark.skip(reason="slow: run with PACELINE_TESTS=thorough")
    for item in items:
        if not THOROUGH and "slow" in item.keywords:
            item.add_marker(skip)
    items.sort(key=lambda item: not item.nodeid.startswith(START_FIRST))


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


@pytest.fixture(scope="session", params=["stand-ins", "real"])
def data(request: pytest.FixtureRequest) -> Path:
    """Return a folder as ``shared``: small stand-ins, which every checkout has, and then the real data.

    For what holds of any file in a format. ``tests/data/make.py`` makes the stand-ins.
    """
    if request.param == "stand-ins":
        return ROOT / "tests/data"
    real: Path = request.getfixturevalue("shared")
    return real
