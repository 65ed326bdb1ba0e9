"""``python -m paceline.conformance FILE...``: compare this engine's decisions with those of real engines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from paceline.conformance import Difference, check, read_log
from paceline.conformance.routers import check_router, is_router_log, read_router_log
from paceline.errors import PacelineError

__all__ = ["main"]

_USAGE = (
    "usage: python -m paceline.conformance [--follow] FILE...   (decision logs, .json or .json.gz)\n"
    "--follow: ties that a router breaks at random go to the instance in the log, if it is among the equals"
)


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
    worst, follow = 0, "--follow" in arguments
    for name in (argument for argument in arguments if argument != "--follow"):
        try:
            lines, status = _compared(name, follow=follow)
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


def _compared(name: str, *, follow: bool) -> tuple[list[str], int]:
    """Return a line for each way to replay a log, and 1 if any of them differs."""
    compare = _router(name, follow=follow) if is_router_log(name) else _scheduler(name)
    lines, status = [], 0
    for leap in (True, False):
        difference, equal = compare(leap)
        status = status if difference is None else 1
        lines.append(f"{name}: {'leaping' if leap else 'stepping'}: {difference or equal}")
    return lines, status


_Compare = Callable[[bool], tuple[Difference | None, str]]


def _scheduler(name: str) -> _Compare:
    log = read_log(name)
    return lambda leap: (check(log, leap=leap), f"all {len(log.steps)} steps equal")


def _router(name: str, *, follow: bool) -> _Compare:
    log = read_router_log(name)
    seen = ", given what the router saw" if log.grade == "rule" else ""
    seen += "" if log.left_out is None else f" ({log.left_out} is not compared)"
    return lambda leap: (
        check_router(log, leap=leap, follow=follow),
        f"all {len(log.requests)} requests equal{seen}",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
