"""Which calls waited for which, told from when they ran.

A file of calls with their starts and ends rarely says which call waited for which answers. The rule here is
that of an interval order: a call waited for the calls of its group that had ended when it started. Of these
only the last ones matter: a call that had ended before another of them started is implied by that other.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

__all__ = ["EVER", "Intervals"]

EVER: Final = 2**70
"""A moment after all others, in nanoseconds."""


class Intervals:
    """The calls of one group, to be asked which of them a moment waits for.

    Parameters
    ----------
    members
        A number for each call, which `before` returns.
    starts, ends
        Nanoseconds. A call takes at least one, so that no two calls wait for each other.
    slack
        Nanoseconds by which an end may be after the start that waited for it, as stamps are rounded.

    Examples
    --------
    Two calls run side by side after a first one, and a last call needs both:

    >>> calls = Intervals([0, 1, 2, 3], [0, 10, 12, 30], [9, 20, 25, 40])
    >>> calls.before(12), calls.before(30), calls.before(EVER)
    ([0], [1, 2], [3])
    """

    __slots__ = ("_begins", "_begun", "_ends", "_latest", "_members")

    def __init__(
        self, members: Sequence[int], starts: Sequence[int], ends: Sequence[int], *, slack: int = 0
    ) -> None:
        effective = [max(start + 1, end - slack) for start, end in zip(starts, ends, strict=True)]
        order = sorted(range(len(members)), key=lambda at: (effective[at], at))
        self._members = [members[at] for at in order]
        self._ends = [effective[at] for at in order]
        self._latest = list(accumulate((starts[at] for at in order), max))
        by_start = sorted(range(len(members)), key=lambda at: (starts[at], at))
        self._begun = [members[at] for at in by_start]
        self._begins = [starts[at] for at in by_start]

    def before(self, moment: int) -> list[int]:
        """Return the calls that something which starts at `moment` waited for, in the order of their ends."""
        count = bisect_right(self._ends, moment)
        if count == 0:
            return []
        first = bisect_right(self._ends, self._latest[count - 1], 0, count)
        return self._members[first:count]

    def begun(self, moment: int) -> int | None:
        """Return the call that started last before `moment` or at it, ended or not."""
        count = bisect_right(self._begins, moment)
        return self._begun[count - 1] if count else None

    def after(self, moment: int) -> int | None:
        """Return the first call that started at `moment` or after it."""
        count = bisect_left(self._begins, moment)
        return self._begun[count] if count < len(self._begun) else None

    @property
    def end(self) -> int:
        """The end of the last call."""
        return self._ends[-1]
