"""What a study is run with, and whom it tells how far it has come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Work"]


@dataclass(slots=True, kw_only=True)
class Work:
    """How to run a study, and how far it has come.

    Parameters
    ----------
    quick
        On fewer requests, to see that it runs.
    data
        A folder of real data that a study may use in place of distributions fitted to it; ``None`` for
        those.
    report
        Called with what is being done, and how much is done of how much, after each part.

    Examples
    --------
    >>> work = Work(report=lambda what, done, total: print(f"{what}: {done:g} of {total:g}"))
    >>> work.plan(3)
    >>> work.done("first", 2)
    first: 2 of 3
    """

    quick: bool = False
    data: Path | None = None
    report: Callable[[str, float, float], object] | None = None
    _total: float = field(default=0.0, init=False)
    _done: float = field(default=0.0, init=False)

    def plan(self, amount: float) -> None:
        """Say that so much more is to do, in any unit that goes with time."""
        self._total += amount

    def done(self, what: str, amount: float = 1.0) -> None:
        """Say that so much of it is done, with ``what``."""
        self._done += amount
        if self.report is not None:
            self.report(what, self._done, max(self._total, self._done))

    def pick(self, full: int, quick: int) -> int:
        """Return a number of requests: the one for a quick run, or the other."""
        return quick if self.quick else full
