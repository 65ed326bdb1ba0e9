"""The search for the smallest size that passes, where each size has one or more options.

A size passes if one of its options does. The search assumes that a larger size does no worse, and checks the
assumption around its answer:

    the answer is the smallest evaluated size that passes; the two sizes below it are evaluated, and fail.

It evaluates, in this order: sizes 1, 2, 4, 8, … until one passes; up to three sizes inside the bracket at a
time; the two sizes below the answer and the one above it; and all options of the answer, for the best of
them. Options of a size are tried outward from the division that did best so far, four at a time, until one
passes; so a size fails only after all its options did.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from paceline.planning.asking import BATCH, Asked, Search

__all__ = ["Counts", "Smallest", "smallest_passing"]

Counts: TypeAlias = tuple[int, ...]
"""An option: the instances of each pool."""

_Verdict: TypeAlias = tuple[bool, float]
"""Whether an option passes, and its margin: more is better."""


@dataclass(frozen=True, slots=True)
class Smallest:
    """What the search found.

    Attributes
    ----------
    size
        The index of the smallest size that passes; None if no size does.
    seen
        Whether each evaluated size passes, by index, ascending.
    """

    size: int | None
    seen: dict[int, bool]

    @property
    def monotone(self) -> bool:
        """Whether no evaluated size fails above one that passes."""
        return self.size is None or all(passes for size, passes in self.seen.items() if size > self.size)


class _Sizes:
    """The options of each size, and the verdicts so far."""

    def __init__(self, options: Sequence[Sequence[Counts]]) -> None:
        self.options = options
        self.verdicts: dict[Counts, _Verdict] = {}
        self.passing: dict[int, bool] = {}

    def decide(self, sizes: Collection[int], after: int, *, each: bool) -> Search[Counts, _Verdict, None]:
        """Evaluate options until every size is decided.

        Unless ``each`` is set, a size is left undecided once its outcome follows from another's, given that a
        larger size does no worse.
        """
        waiting = {size: self._outward(size) for size in sizes if size not in self.passing}
        while waiting:
            batch = [option for options in waiting.values() for option in options[:BATCH]]
            self.verdicts.update(zip(batch, (yield Asked(tuple(batch), after)), strict=True))
            for size, options in list(waiting.items()):
                tried, waiting[size] = options[:BATCH], options[BATCH:]
                if any(self.verdicts[option][0] for option in tried):
                    self.passing[size] = True
                elif not waiting[size]:
                    self.passing[size] = False
            for size in list(waiting):
                larger_fails = any(not passes and other > size for other, passes in self.passing.items())
                smaller_passes = any(passes and other < size for other, passes in self.passing.items())
                if size in self.passing or (not each and (larger_fails or smaller_passes)):
                    del waiting[size]

    def finish(self, size: int) -> Search[Counts, _Verdict, None]:
        """Evaluate the options of a size that are still missing."""
        batch = tuple(option for option in self.options[size] if option not in self.verdicts)
        if batch:
            self.verdicts.update(zip(batch, (yield Asked(batch, 0)), strict=True))

    def _outward(self, size: int) -> list[Counts]:
        """Return the options of a size that are not evaluated, the likeliest to pass first."""
        best = max(self.verdicts, key=lambda option: self.verdicts[option], default=None)

        def distance(option: Counts) -> float:
            ideal = [1 / len(option)] * len(option) if best is None else [each / sum(best) for each in best]
            return sum(abs(each / sum(option) - share) for each, share in zip(option, ideal, strict=True))

        return sorted((each for each in self.options[size] if each not in self.verdicts), key=distance)


def smallest_passing(options: Sequence[Sequence[Counts]]) -> Search[Counts, _Verdict, Smallest]:
    """Search for the smallest size that passes.

    Parameters
    ----------
    options
        The options of each size, sizes ascending; at least one each.

    Yields
    ------
    Asked
        Options, none twice.

    Returns
    -------
    Smallest
        The answer, and the evaluated sizes.
    """
    sizes, last = _Sizes(options), len(options) - 1
    while True:
        top = min((size for size, passes in sizes.passing.items() if passes), default=None)
        if top is None:
            tried = max(sizes.passing, default=-1)
            if tried == last:
                return Smallest(None, dict(sorted(sizes.passing.items())))
            first = 1 if tried < 0 else 2 * (tried + 1)
            ladder = [min(first * 2**k - 1, last) for k in range(BATCH)]
            yield from sizes.decide(sorted(set(ladder)), after=BATCH, each=False)
            continue
        below = max((size for size, passes in sizes.passing.items() if not passes and size < top), default=-1)
        if top - below > 1:
            inside = {below + math.ceil((top - below) * k / BATCH) for k in range(1, BATCH)} - {top}
            yield from sizes.decide(sorted(inside), after=BATCH, each=False)
            continue
        around = [size for size in (top - 2, top + 1) if 0 <= size <= last and size not in sizes.passing]
        if not around:
            yield from sizes.finish(top)
            return Smallest(top, dict(sorted(sizes.passing.items())))
        yield from sizes.decide(around, after=1, each=True)
