"""Paceline, of this tree."""

from __future__ import annotations

import sys
from pathlib import Path

from benches.peers.adapter import DRIVERS, HERE, About

import paceline

ABOUT = About(
    name="Paceline",
    version=paceline.__version__,
    source="this tree",
    costs=("linear", "own"),
    definitions="of docs/metrics.md",
    price="the roofline of its catalog, with efficiencies fitted to measured kernels",
    environment={"PYTHONPATH": str(HERE.parents[1] / "python")},
)


def prepare(cache: Path) -> None:
    """Do nothing: the tree is built."""


def command(cache: Path, job: Path) -> list[str]:
    """Return the command of the driver under the Python that runs this."""
    return [sys.executable, str(DRIVERS / "run_paceline.py"), str(job)]
