"""Importing a debug build warns once."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest

from paceline import _core
from paceline._build import warn_of_debug_build


def test_a_debug_build_warns() -> None:
    with pytest.warns(RuntimeWarning, match="is a debug build, tens of times slower"):
        warn_of_debug_build("debug")


def test_a_release_build_does_not() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_debug_build("release")


def test_the_warning_comes_once_in_an_interpreter() -> None:
    code = (
        "from paceline import _core; _core.BUILD_PROFILE = 'debug'\n"
        "import paceline, warnings\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    paceline.replay, paceline.load_result, paceline.Result\n"
        "print([warning.category.__name__ for warning in seen])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['RuntimeWarning']\n"
    assert _core.BUILD_PROFILE in ("debug", "release")
