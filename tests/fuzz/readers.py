"""Give damaged files to the readers for a given time.

    python tests/fuzz/readers.py --seconds 60 [--target validate ...] [--seed 7]

Each reader runs for that many seconds. The script prints how many cases each reader read and refused, and its
smallest case that raised anything but an error of Paceline's. If there is such a case, the exit status is 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests")]

from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: E402

from fuzz.targets import TARGETS, Target, emptied  # noqa: E402
from paceline.errors import InvariantViolation, PacelineError  # noqa: E402

CASES = 25


def fuzz(target: Target, seconds: float, number: int, folder: Path) -> tuple[int, int, Exception | None]:
    """Fuzz one reader; return the cases it read, the cases it refused, and any other error it raised."""
    counts = [0, 0]
    end = time.monotonic() + seconds

    def case(value: Any) -> None:
        try:
            target.call(emptied(folder), value)
        except InvariantViolation:
            raise
        except PacelineError:
            counts[1] += 1
        else:
            counts[0] += 1

    chosen = settings(
        max_examples=CASES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    while time.monotonic() < end:
        try:
            seed(number)(chosen(given(target.inputs)(case)))()
        except Exception as error:
            return counts[0], counts[1], error
        number += 1
    return counts[0], counts[1], None


def main() -> int:
    """Fuzz the readers that the command line names; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", action="append", choices=[target.name for target in TARGETS])
    given_words = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        for target in TARGETS:
            if given_words.target and target.name not in given_words.target:
                continue
            read, refused, error = fuzz(target, given_words.seconds, given_words.seed, Path(name) / "case")
            print(f"{target.name}: {read} read, {refused} refused", flush=True)
            if error is not None:
                failed += 1
                print("".join(traceback.format_exception(error)), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
