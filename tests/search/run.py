"""Search for a case that breaks a promise.

    python -m tests.search --seconds 3600 --seed 7 --workers 2 --save tests/search/found

Prints the failures, the smallest case of each kind, and how often each mechanism was drawn and had an effect.
The exit status is 1 if there is a failure.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from search import report
from search.searching import search


def main() -> None:
    """Read the command line, search and report."""
    given = _command_line()
    found = search(given.seed, given.seconds, given.workers, given.package, given.avoid)
    print(report.table(found, given.rare))
    for kind in sorted(found.kinds, key=lambda kind: -len(found.kinds[kind])):
        print(f"\n{len(set(found.kinds[kind]))} cases: {kind}\n  often with: {report.suspects(found, kind)}")
        for number, case in report.smallest(
            found, kind, most=given.each, seconds=given.shrink, package=given.package
        ):
            print(report.show(found, kind, number, case), flush=True)
            if given.save:
                given.save.mkdir(parents=True, exist_ok=True)
                slug = "".join(c if c.isalnum() else "-" for c in kind.lower())[:60].strip("-")
                (given.save / f"{slug}-{found.seed}-{number}.json").write_bytes(case.to_json() + b"\n")
    sys.exit(1 if found.kinds else 0)


def _command_line() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.search", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long to search (60)")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws other cases (1)")
    parser.add_argument("--workers", type=int, default=1, help="processes (1)")
    parser.add_argument("--save", type=Path, help="folder for the smallest cases")
    parser.add_argument("--package", type=Path, help="folder with the package paceline to check")
    parser.add_argument("--shrink", type=float, default=20, help="seconds to make a case smaller (20)")
    parser.add_argument("--each", type=int, default=2, help="cases of a kind that are made smaller (2)")
    parser.add_argument(
        "--rare", type=float, default=0.02, help="share below which a mechanism is rare (0.02)"
    )
    parser.add_argument(
        "--avoid",
        action="append",
        default=[],
        help="leave out cases with this mechanism, as the table names it",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
