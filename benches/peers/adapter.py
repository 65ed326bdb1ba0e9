"""One simulator: how it is installed and run, and what it cannot be told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

HERE = Path(__file__).parent
DRIVERS = HERE / "drivers"


@dataclass(frozen=True)
class About:
    """What a table says of a simulator."""

    name: str
    version: str
    #: Where it was installed from.
    source: str
    #: Prices of a step that it can be given: "linear" (the shared one), "own".
    costs: tuple[str, ...]
    #: What it calls each metric, where that is not Paceline's definition.
    definitions: str = "as Paceline's"
    #: Its own price of a step.
    price: str = ""
    #: Settings that it cannot be told, and what stands in their place.
    instead: tuple[str, ...] = ()
    #: Why its answers differ where the price of a step is the same, from its source.
    differs: tuple[str, ...] = ()
    #: The longest work that is tried, in requests.
    most_requests: int = 1_000_000
    #: Longest time that one run may take, in seconds.
    limit_s: float = 600.0
    environment: Mapping[str, str] = field(default_factory=dict)


class Peer(Protocol):
    """An adapter. A module in `adapters/` has these three names; a new simulator is one more module."""

    ABOUT: About

    def prepare(self, cache: Path) -> None:
        """Install it below a folder, unless it is there."""
        ...

    def command(self, cache: Path, job: Path) -> list[str]:
        """Return the command that reads a job, simulates it and writes the answers.

        Its last line on the standard output is JSON with `replay_s`, the seconds of the simulation alone.
        """
        ...


def from_pypi(name: str, version: str) -> tuple[Callable[[Path], None], Callable[[Path, Path], list[str]]]:
    """Return `prepare` and `command` of a package on PyPI, with a driver in Python in its environment."""

    def prepare(cache: Path) -> None:
        _virtual_environment(cache, name, f"{name}=={version}")

    def command(cache: Path, job: Path) -> list[str]:
        driver = DRIVERS / f"run_{name.replace('-', '_')}.py"
        return [str(cache / name / "bin/python"), str(driver), str(job)]

    return prepare, command


def _virtual_environment(cache: Path, name: str, *requirements: str) -> None:
    """Make a virtual environment that has pinned packages, unless it is complete."""
    folder = cache / name
    done = folder / "complete.txt"
    wanted = "\n".join(requirements)
    if done.is_file() and done.read_text() == wanted:
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--prefer-binary"]
    subprocess.run([*pip, *requirements], check=True, env=_clean())
    done.write_text(wanted)


def _clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
