"""All checks of a case."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from paceline.errors import PacelineError
from search import guard
from search.case import Case
from search.mechanisms import drawn, exercised, telling
from search.oracle import (
    apart,
    api,
    clients,
    foresight,
    invariants,
    leaping,
    outside,
    progress,
    reference,
    steps,
    streaming,
)
from search.oracle.failure import Failure
from search.oracle.replayed import Replayed
from search.spelled.clients import spelled

LOOKED_AT = 6
"""One in this many cases is checked for the mechanisms that change its outcome."""


@dataclass(slots=True)
class Verdict:
    """The outcome of all checks of a case.

    Attributes
    ----------
    failures : list of Failure
        The first is mostly the cause of the others.
    refused : str or None
        Why the engine refused it.
    stopped : str or None
        Why the replay makes no progress; None if it does.
    drawn, exercised : set of str
        Mechanisms in its configuration, and mechanisms that had an effect in the replay.
    asked : Counter of str
        Checks made: of the engine's replay, against the reference, by the public API.
    telling : set of str or None
        Mechanisms without which the outcome differs; None if that was not checked.
    """

    failures: list[Failure] = field(default_factory=list)
    refused: str | None = None
    stopped: str | None = None
    drawn: set[str] = field(default_factory=set)
    exercised: set[str] = field(default_factory=set)
    asked: Counter[str] = field(default_factory=Counter)
    telling: set[str] | None = None


@dataclass(slots=True)
class _Checks:
    """The checks of one case, and the one that is running."""

    case: Case
    number: int
    verdict: Verdict
    tells: bool
    first: bool
    where: str = "stepping"

    def run(self) -> list[Failure]:
        case, verdict = self.case, self.verdict
        stepped, stop = progress.replayed(case, leap=False, record=True)
        self.where = "leaping"
        leapt, other = progress.replayed(case, leap=True, record=True)
        found = progress.same(stop, other)
        if found:
            return found
        if stop is not None:
            verdict.stopped = stop.kind
            verdict.asked["makes no progress"] += 1
            if stop.at == 0:
                return found
            case = progress.before(case, stop)
            self.where = "stepping to where it stops"
            stepped = Replayed(case, leap=False, record=True)
            self.where = "leaping to where it stops"
            leapt = Replayed(case, leap=True, record=True)
        assert stepped is not None
        assert leapt is not None
        self.where = "leaping unrecorded"
        plain = Replayed(case, leap=True, record=False)
        verdict.exercised = exercised(stepped)
        for failure in self._failures(stepped, leapt, plain):
            found.append(failure)
            if self.first:
                return found
        if self.tells and self.number % LOOKED_AT == 0 and not found:
            self.where = "without a mechanism"
            verdict.telling = telling(plain)
        return found

    def _failures(self, stepped: Replayed, leapt: Replayed, plain: Replayed) -> Iterator[Failure]:
        case, verdict = stepped.case, self.verdict
        yield from invariants.broken(stepped)
        yield from steps.broken(stepped)
        yield from clients.broken(stepped)
        yield from leaping.same("INV-5 leap", stepped, leapt)
        yield from leaping.same("INV-6 record", leapt, plain)
        yield from self._reference(leapt)
        self.where = "through the public API"
        yield from api.broken(plain, verdict.asked)
        yield from self._clients(leapt)
        if outside.covers(case):
            self.where = "submitted from outside"
            verdict.asked["submitted from outside"] += 1
            yield from outside.broken((stepped, leapt, plain)[self.number % 3], self.number)
        if streaming.covers(case):
            self.where = "streamed"
            verdict.asked["streamed"] += 1
            yield from streaming.broken((leapt, plain)[self.number % 2], self.number)
        self.where = "on threads"
        yield from apart.broken(case, self.number, verdict.asked)
        if foresight.covers(case):
            self.where = "other outputs"
            verdict.asked["other outputs"] += 1
            yield from foresight.broken(leapt, self.number)

    def _clients(self, leapt: Replayed) -> list[Failure]:
        if not clients.has(leapt.case):
            return []
        self.where = "clients in Python's words"
        self.verdict.asked["clients: spelled out"] += 1
        found = list(spelled(leapt, self.number))
        if clients.can_reopen(leapt):
            self.where = "the open loop of its arrivals"
            self.verdict.asked["clients: the open loop of its arrivals"] += 1
            found += clients.reopened(leapt)
        else:
            self.verdict.asked["clients: no open loop, as sessions are read or a step dropped a request"] += 1
        return found

    def _reference(self, leapt: Replayed) -> list[Failure]:
        if not reference.covers(leapt.case):
            return []
        self.where = "reference"
        try:
            again = reference.comparable(leapt)
            if reference.is_long(again):
                self.verdict.asked["reference: no, as it would take too long"] += 1
                return []
            self.verdict.asked["reference"] += 1
            return list(reference.broken(again))
        except (AssertionError, KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
            return [Failure(f"reference: {type(error).__name__}", repr(error))]


def check(
    case: Case, *, number: int = 0, seconds: float = 4.0, tells: bool = True, first: bool = False
) -> Verdict:
    """Replay a case in all ways and make all checks.

    Parameters
    ----------
    case
        What is replayed.
    number
        The seed of changes to a case.
    seconds
        Processor time after which a case counts as hanging.
    tells
        Whether the case, if its number is one of those, is also replayed without each of its mechanisms.
    first
        Whether the first failure ends the checks.
    """
    verdict = Verdict(drawn=drawn(case))
    checks = _Checks(case, number, verdict, tells, first)
    try:
        with guard.limit(seconds):
            verdict.failures = checks.run()
    except PacelineError as error:
        text = str(error)
        if checks.where == "stepping":
            verdict.refused = plain(text)
            verdict.failures = api.accepted(case, text)
        else:
            verdict.failures = [Failure(f"refused {checks.where} only", text)]
    except guard.Hang:
        verdict.failures = [Failure(f"hang: {checks.where}", "the limit of time")]
    except MemoryError as error:
        verdict.failures = [Failure(f"memory: {checks.where}", str(error))]
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        kind = f"{type(error).__name__}: {plain(str(error))}{guard.last_panic()}"
        verdict.failures = [Failure(kind, f"{checks.where}: {error}")]
    return verdict


def plain(text: str) -> str:
    """Return a message without the values that differ from case to case."""
    return re.sub(r"\d+(\.\d+)?", "N", " ".join(text.split()))[:200]
