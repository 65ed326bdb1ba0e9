"""Counts of cases by outcome and mechanism."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from search.check import Verdict

LOOKED_AT = "all looked at"


@dataclass(slots=True)
class Counts:
    """Counts of cases by outcome and mechanism.

    Attributes
    ----------
    cases : int
    drawn, exercised : Counter of str
        Cases that the engine accepted, by mechanism.
    refused : Counter of str
        Cases that it refused, by reason.
    stopped : Counter of str
        Cases that make no progress, by reason.
    asked : Counter of str
        Checks made.
    telling : Counter of str
        Cases whose outcome differs without a mechanism, and the number of cases checked for it.
    """

    cases: int = 0
    drawn: Counter[str] = field(default_factory=Counter)
    exercised: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    stopped: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    telling: Counter[str] = field(default_factory=Counter)

    @property
    def accepted(self) -> int:
        """Cases that the engine accepted."""
        return self.cases - self.refused.total()

    def add(self, verdict: Verdict) -> None:
        """Count a case."""
        self.cases += 1
        self.asked.update(verdict.asked)
        if verdict.refused is not None:
            self.refused[verdict.refused] += 1
            return
        self.drawn.update(verdict.drawn)
        self.exercised.update(verdict.exercised)
        if verdict.telling is not None:
            self.telling.update(verdict.telling | {LOOKED_AT})
        if verdict.stopped is not None:
            self.stopped[verdict.stopped] += 1

    def take(self, given: dict[str, Any]) -> None:
        """Add the counts of another process."""
        self.cases += given["cases"]
        for one in fields(self)[1:]:
            getattr(self, one.name).update(given[one.name])

    def given(self) -> dict[str, Any]:
        """Return the counts as plain values, to send to another process."""
        return {"cases": self.cases, **{one.name: dict(getattr(self, one.name)) for one in fields(self)[1:]}}
