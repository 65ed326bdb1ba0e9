"""Token pacing and quality of experience, from the time of every token.

A reader reads a token as it appears, but never sooner than ``interval`` after the one before.
Quality of experience is one less the share of the reading curve's area that delays cost (Andes,
arXiv 2404.16283; clean form: a token is read at ``max(its time, the last one's + interval)``).
Times are integers in one unit, and so all sums are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast readers read, and how soon they expect to start; in ticks."""

    interval: int
    first: int
    ttft: int | None = None


def read_times(times: list[int], interval: int) -> list[int]:
    """Return when each token is read that appeared at ``times``.

    Examples
    --------
    >>> read_times([5, 6, 30], interval=10)
    [5, 15, 30]
    """
    read: list[int] = []
    for time in times:
        read.append(max(time, read[-1] + interval) if read else time)
    return read


def slack(times: list[int], interval: int, now: int) -> int:
    """Return for how long after ``now`` the tokens so far last; negative if the reader waits.

    Examples
    --------
    >>> slack([5, 6], interval=10, now=20)     # read at 5 and at 15, which lasts until 25
    5
    """
    return read_times(times, interval)[-1] + interval - now


def qoe(times: list[int], interval: int, expected_first: int) -> float:
    """Return the quality of experience against a curve that starts at a promised moment.

    Examples
    --------
    >>> qoe([10, 20, 30], interval=10, expected_first=12)     # always early
    1.0
    """
    late = [
        read - (expected_first + position * interval)
        for position, read in enumerate(read_times(times, interval))
    ]
    gap = sum(lateness for lateness in late if lateness > 0)
    if gap == 0:
        return 1.0
    return min(1.0, max(0.0, float(1 - gap / _area(times, interval, expected_first))))


def qoe_answering(times: list[int], interval: int) -> float:
    """Return the quality of experience against the curve that starts with the first token.

    Examples
    --------
    >>> qoe_answering([0, 40], interval=10)     # read at 0 and 40; 50 - 0 twice, less 4 x 10 / 2, is 80
    0.625
    """
    read = read_times(times, interval)
    gap = sum(time - (times[0] + position * interval) for position, time in enumerate(read))
    return float(1 - gap / _area(times, interval, times[0]))


def _area(times: list[int], interval: int, start: int) -> Fraction:
    """Token-time under the expected curve, from ``start`` until the last token is read."""
    count = len(times)
    end = read_times(times, interval)[-1] + interval
    return Fraction(count * (end - start)) - Fraction(count * count * interval, 2)
