"""inference-lab, of Doubleword: a Rust library, driven by a program of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from benches.peers.adapter import DRIVERS, About

NAME = "inference-lab"
VERSION = "1.0.0"
ABOUT = About(
    name=NAME,
    version=VERSION,
    source="crates.io, as a library",
    costs=("linear", "own"),
    definitions="as Paceline's",
    price="a roofline at the data sheet's peaks, by its README an upper bound on speed",
    differs=(
        "in nothing but the error of sums of doubles where no request is preempted",
        "the step that computes a preempted request's tokens again yields no token, and vLLM's yields the "
        "next one (`tokens_to_schedule_from`): of two requests at 0, of 1 and 18 prompt tokens and of 25 "
        "and 30 outputs, with 4 blocks, the second ends in step 40, and not 39",
    ),
    instead=("its command line draws arrivals itself: a driver submits the trace to its engine",),
)


def prepare(cache: Path) -> None:
    """Build the driver with the pinned crate."""
    folder = cache / NAME
    shutil.copytree(DRIVERS / "inference_lab", folder, dirs_exist_ok=True)
    environment = os.environ | {"CARGO_TARGET_DIR": str(folder / "target")}
    subprocess.run(
        ["cargo", "build", "--release", "--quiet", "--locked"], cwd=folder, check=True, env=environment
    )


def command(cache: Path, job: Path) -> list[str]:
    """Return the command of the driver."""
    return [str(cache / NAME / "target/release/peer-inference-lab"), str(job)]
