"""``python -m paceline.conformance FILE...``: does this engine decide as the real ones did."""

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
            log = read_log(name)
            for leap in (True, False):
                way = "leaping" if leap else "stepping"
                difference = check(log, leap=leap)
                if difference is None:
                    print(f"{name}: {way}: all {len(log.steps)} steps equal")
                else:
                    worst = max(worst, 1)
                    print(f"{name}: {way}: {difference}")
        except OSError as error:
            worst = 2
            print(f"paceline: {name}: {error.strerror or error}", file=sys.stderr)
        except PacelineError as error:
            worst = 2
            print(f"paceline: {error}", file=sys.stderr)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
