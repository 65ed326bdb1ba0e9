"""Everything that must hold of a case."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from paceline.errors import PacelineError
from search import guard
from search.case import Case
from search.mechanisms import drawn, exercised
from search.oracle import foresight, invariants, leaping, reference, steps
from search.oracle.failure import Failure
from search.oracle.replayed import Replayed


@dataclass(slots=True)
class Verdict:
    """What was found of a case.

    Attributes
    ----------
    failures : list of Failure
        The first is what the others mostly come from.
    refused : str or None
        Why the engine refused it.
    drawn, exercised : set of str
        Mechanisms that it has, and that were seen at work.
    """

    failures: list[Failure] = field(default_factory=list)
    refused: str | None = None
    drawn: set[str] = field(default_factory=set)
    exercised: set[str] = field(default_factory=set)


def check(case: Case, *, number: int = 0, all_of_it: bool = True, seconds: float = 2.0) -> Verdict:
    """Replay a case in all ways, and look at what must hold.

    Parameters
    ----------
    case
        What is replayed.
    number
        Seeds what is changed about a case.
    all_of_it
        Whether what takes long is checked too; otherwise only by every fourth number.
    seconds
        Processor time after which a replay hangs.
    """
    verdict = Verdict(drawn=drawn(case))
    more = all_of_it or number % 4 == 0
    where = "stepping"
    try:
        with guard.limit(seconds):
            stepped = Replayed(case, leap=False, record=True)
            where = "leaping"
            leapt = Replayed(case, leap=True, record=True)
            where = "leaping unrecorded"
            plain = Replayed(case, leap=True, record=False)
            found = [
                *invariants.broken(stepped),
                *steps.broken(stepped),
                *leaping.same("INV-5 leap", stepped, leapt),
                *leaping.same("INV-6 record", leapt, plain),
            ]
            if more and foresight.covers(case):
                where = "other outputs"
                found += foresight.broken(leapt, number)
    except PacelineError as error:
        text = str(error)
        if where == "stepping":
            verdict.refused = _plain(text)
            return verdict
        verdict.failures = [Failure(f"refused {where} only", text)]
        return verdict
    except guard.Hang:
        verdict.failures = [Failure(f"hang: {where}", "the limit of time")]
        return verdict
    except MemoryError as error:
        verdict.failures = [Failure(f"memory: {where}", str(error))]
        return verdict
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        kind = f"{type(error).__name__}: {_plain(str(error))}{guard.last_panic()}"
        verdict.failures = [Failure(kind, f"{where}: {error}")]
        return verdict
    if more:
        try:
            found += reference.broken(leapt)
        except AssertionError as error:
            found.append(Failure("reference: asserts", repr(error)))
    verdict.failures = found
    verdict.exercised = exercised(stepped)
    return verdict


def _plain(text: str) -> str:
    """Leave out of a message what differs from case to case."""
    return re.sub(r"\d+(\.\d+)?", "N", " ".join(text.split()))[:200]
