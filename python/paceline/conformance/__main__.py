"""``python -m paceline.conformance FILE...``: compare this engine's decisions with those of real engines."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from paceline.conformance import check, read_log
from paceline.errors import PacelineError

__all__ = ["main"]

_USAGE = "usage: python -m paceline.conformance FILE...   (decision logs, .json or .json.gz)"


def main(arguments: Sequence[str]) -> int:
    """Check each file with leaping on and off, and print a line for each.

    Returns
    -------
    int
        0: all equal; 1: some differ; 2: some could not be read or replayed.
    """
    if not arguments or any(argument in ("-h", "--help") for argument in arguments):
        print(_USAGE, file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    worst = 0
    for name in arguments:
        try:
            lines, status = _compared(name)
        except OSError as error:
            worst = 2
            print(f"paceline: {name}: {error.strerror or error}", file=sys.stderr)
        except PacelineError as error:
            worst = 2
            print(f"paceline: {' '.join(str(error).split())}", file=sys.stderr)
        else:
            worst = max(worst, status)
            for line in lines:
                print(line)
    return worst


def _compared(name: str) -> tuple[list[str], int]:
    """Return a line for each way to replay a log, and 1 if any of them differs."""
    log = read_log(name)
    lines, status = [], 0
    for leap in (True, False):
        way = "leaping" if leap else "stepping"
        difference = check(log, leap=leap)
        status = status if difference is None else 1
        lines.append(f"{name}: {way}: {difference or f'all {len(log.steps)} steps equal'}")
    return lines, status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
