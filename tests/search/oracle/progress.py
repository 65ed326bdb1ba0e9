"""A replay that makes no progress ends with an error: the same one, leaping or stepping.

The replay up to that moment is compared like any other case, with the time ended just before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal

from paceline.errors import NoProgressError
from search.case import Case
from search.oracle.failure import Failure
from search.oracle.replayed import Replayed

TICKS_PER_SECOND = 10**12
TOLD = re.compile(r"instances\[(\d+)\] makes no progress at ([0-9.e+-]+) s: (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Stop:
    """The place at which a replay stopped making progress.

    Attributes
    ----------
    instance : int
    at : int
        Ticks.
    rule : str
        The error's message after the moment, without its numbers.
    """

    instance: int
    at: int
    rule: str

    @classmethod
    def of(cls, error: NoProgressError) -> Stop:
        found = TOLD.fullmatch(str(error))
        if found is None:
            raise AssertionError(f"a NoProgressError names its instance and moment, said {error}")
        at = Decimal(found[2]) * TICKS_PER_SECOND
        return cls(int(found[1]), int(at.to_integral_value()), re.sub(r"\d+(\.\d+)?", "N", found[3]))

    @property
    def kind(self) -> str:
        """Whether requests are never scheduled again, or preempt each other forever."""
        return "at rest" if "no stage of its scheduler can run any" in self.rule else "in a circle"


def replayed(case: Case, *, leap: bool, record: bool) -> tuple[Replayed | None, Stop | None]:
    """Replay a case to its end, or to the moment from which it makes no progress."""
    try:
        return Replayed(case, leap=leap, record=record), None
    except NoProgressError as error:
        return None, Stop.of(error)


def before(case: Case, stop: Stop) -> Case:
    """Return the case with the time ended just before it stops."""
    until = max(0, stop.at - 1)
    return replace(case, config={**case.config, "until": until})


def same(stepped: Stop | None, leapt: Stop | None) -> list[Failure]:
    """Compare where stepping and leaping stop."""
    if stepped == leapt:
        return []
    return [Failure("progress: leaping stops elsewhere", f"{stepped} and {leapt}")]
