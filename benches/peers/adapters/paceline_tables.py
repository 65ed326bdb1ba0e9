"""Paceline with the measured kernels of AISimulate's package, so that the two differ in all but those."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benches.peers.adapter import DRIVERS, About
from benches.peers.adapters import aisimulate, paceline

#: The kernels that AISimulate takes if it is told no version of vLLM.
PROFILE = "aisimulate/h100_sxm/vllm/0.24.0"
ABOUT = About(
    name="Paceline with AISimulate's kernels",
    version=paceline.ABOUT.version,
    source=paceline.ABOUT.source,
    costs=("own",),
    definitions="of docs/metrics.md",
    price=f"`Table(profile={PROFILE!r}, overhead_s=0)`, imported from AISimulate {aisimulate.VERSION}",
    environment=paceline.ABOUT.environment,
)


def prepare(cache: Path) -> None:
    """Import the kernels from AISimulate's installed package."""
    aisimulate.prepare(cache)
    (package,) = (cache / aisimulate.NAME).glob("lib/python*/site-packages/aisimulate_core")
    only = ["--gpu", "h100_sxm", "--backend", "vllm", "--into", str(cache / "profiles")]
    command = [sys.executable, "-m", "paceline", "profiles", "import", str(package), *only]
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **paceline.ABOUT.environment}
    )


def command(cache: Path, job: Path) -> list[str]:
    """Return the command of Paceline's driver, which is told the kernels."""
    return [sys.executable, str(DRIVERS / "run_paceline.py"), str(job), str(cache / "profiles"), PROFILE]
