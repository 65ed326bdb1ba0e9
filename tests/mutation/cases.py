"""Replays whose outcome is known without the engine: drawn and found cases, and logs of real schedulers."""

from __future__ import annotations

import hashlib
import re
import signal
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from paceline.conformance import DecisionLog, read_log
from paceline.conformance import check as check_log
from paceline.errors import NoProgressError, PacelineError
from search import check, guard, mechanisms
from search.case import Case, draw
from search.draw.source import Source
from search.near import near
from search.oracle import outside, progress, reference, streaming
from search.oracle.replayed import Replayed

TESTS = Path(__file__).resolve().parents[1]
EVENTS = re.compile(rb'"events":(\d+)')
KINDS = (
    *("accumulated", "allocation", "decodes", "flag", "handover", "joining", "key", "lockstep", "pipeline"),
    *("preemption", "prefix cache", "select", "speculation", "stage", "store", "swap_in", "tier"),
)
"""Kinds of mechanisms of which each is in one of `SELDOM` cases at least, if so many draws have it."""
SELDOM = 25
MORE = 4
"""Draws of cases with such mechanisms, for each other one."""
SECONDS = 4.0
SHORT_S = 0.5
"""Processor time for all checks of a case, and for a replay of a further one."""


class Known(ABC):
    """A replay, and what is known of its outcome.

    Attributes
    ----------
    name : str
    size : int
        Of replays of one kind, the one with a greater size takes longer.
    """

    name: str
    size: int

    @property
    def mechanisms(self) -> set[str]:
        """Those in its configuration, as far as they are counted."""
        return set()

    @abstractmethod
    def outcome(self) -> tuple[str, int]:
        """Replay it, and return its outcome in brief: the result, and how many events it took."""

    @abstractmethod
    def failure(self) -> str | None:
        """Replay it, and compare the outcome with what is known; return the difference."""


class Checked(Known):
    """A case of the search, with all its checks."""

    def __init__(self, name: str, case: Case, number: int) -> None:
        self.name, self.case, self.size = name, case, len(case.requests)
        # Which mechanisms change an outcome is asked of every LOOKED_AT-th case, and not here.
        # Every second number is odd.
        self.number = number * check.LOOKED_AT + 1 + number % 2
        self._stops: str | None = None

    @cached_property
    def mechanisms(self) -> set[str]:
        """Those in its configuration."""
        return mechanisms.drawn(self.case)

    def is_refused(self) -> bool:
        """Whether the unchanged engine refuses the case; notes whether it makes progress to the end."""
        try:
            Replayed(self.case, leap=False, record=False)
        except NoProgressError as error:
            self._stops = progress.Stop.of(error).kind
        except PacelineError:
            return True
        return False

    def outcome(self) -> tuple[str, int]:
        result, events = hashlib.blake2b(digest_size=16), 0
        for part in self._replays():
            try:
                brief, count = _brief(part())
            except PacelineError as error:
                brief, count = f"{type(error).__name__}: {error}".encode(), 0
            result.update(brief)
            events += count
        result.update(self._in_parts())
        return result.hexdigest(), events

    def _in_parts(self) -> bytes:
        """Give the requests in parts, in one of two ways; return how that differs from the whole."""
        covered = [way for way in (outside, streaming) if way.covers(self.case)]
        if not covered:
            return b""
        try:
            whole = Replayed(self.case, leap=True, record=False)
            return repr(list(covered[self.number % len(covered)].broken(whole, self.number))).encode()
        except PacelineError as error:
            return f"{type(error).__name__}: {error}".encode()

    def _replays(self) -> Iterator[Callable[[], Replayed]]:
        for leap in (False, True):
            yield lambda leap=leap: Replayed(self.case, leap=leap, record=not leap)  # type: ignore[misc]
        # The reference has affine costs only: with others, what it is compared with is another replay.
        if reference.affine(self.case) is not self.case:
            yield lambda: reference.comparable(_Unreplayed(self.case))  # type: ignore[arg-type]
        else:
            yield lambda: Replayed(self.case, leap=True, record=True)

    def failure(self) -> str | None:
        verdict = check.check(self.case, number=self.number, seconds=SECONDS, first=True)
        if verdict.failures:
            return verdict.failures[0].kind
        if verdict.refused is not None:
            return f"refused: {verdict.refused}"
        if verdict.stopped != self._stops:
            return f"progress: stops {verdict.stopped}"
        return None


class _Unreplayed:
    """A case as `reference.comparable` takes it, which looks at the case before it replays it anew."""

    def __init__(self, case: Case) -> None:
        self.case, self.leap, self.record = case, True, True


class Further(Checked):
    """A case beside those that are always replayed, which may be none that the engine takes."""

    def is_refused(self) -> bool:
        before = signal.signal(signal.SIGVTALRM, guard.interrupt)
        try:
            with guard.limit(SHORT_S):
                return super().is_refused()
        except (ArithmeticError, LookupError, TypeError, ValueError, guard.Hang):
            return True
        finally:
            signal.signal(signal.SIGVTALRM, before)


class Logged(Known):
    """The log of a real scheduler."""

    def __init__(self, name: str, log: DecisionLog, leap: bool) -> None:
        self.name, self._log, self._leap, self.size = name, log, leap, len(log.steps)

    @property
    def mechanisms(self) -> set[str]:
        """The scheduler whose log it is."""
        return {f"log: {self._log.kind}"}

    def outcome(self) -> tuple[str, int]:
        return str(check_log(self._log, leap=self._leap)), 0

    def failure(self) -> str | None:
        difference = check_log(self._log, leap=self._leap)
        return None if difference is None else f"log: {difference}"


def _brief(replayed: Replayed) -> tuple[bytes, int]:
    """Return the digest of a replay without its number of events, and that number."""
    digest = hashlib.blake2b(digest_size=16)
    for values in replayed.bytes_of_columns.values():
        digest.update(values)
    for log in replayed.logs:
        digest.update(log)
    for account in replayed.accounts.values():
        digest.update(account)
    digest.update(replayed.sketch)
    digest.update(repr(replayed.timeline).encode())
    stats = bytes(replayed.outcome.stats)
    events = EVENTS.search(stats)
    digest.update(EVENTS.sub(b"", stats))
    return digest.digest(), int(events[1]) if events else 0


def around(parents: Sequence[Checked], each: int) -> Iterator[Further]:
    """Yield `each` cases near each of these, the same each time."""
    for parent in parents:
        for number in range(each):
            name = f"near {parent.name}:{number}"
            source = Source(name)
            yield Further(name, near(parent.case, source.pick(parents).case, source), parent.number + number)


def logs() -> Iterator[Logged]:
    """Yield the logs of real schedulers, leaping and stepping."""
    for path in sorted((TESTS / "conformance" / "logs").glob("*/*.json.gz")):
        log = read_log(path)
        for leap in (False, True):
            name = f"{path.parent.name}/{path.name.partition('.')[0]} {'leaping' if leap else 'stepping'}"
            yield Logged(name, log, leap)


def found() -> Iterator[Checked]:
    """Yield the cases that the search once found."""
    for number, path in enumerate(sorted((TESTS / "search" / "found").glob("*.json"))):
        yield Checked(path.stem, Case.from_json(path.read_bytes()), number)


def drawn(seed: int, count: int) -> Iterator[Checked]:
    """Yield drawn cases, the same each time: `count`, and others with mechanisms that these seldom have."""
    seen = Counter[str]()
    for number in range(count * (1 + MORE)):
        known = Checked(f"case {seed}:{number}", draw(seed, number), number)
        has = [one for one in known.mechanisms if one.partition(":")[0] in KINDS]
        if number < count or any(seen[one] * SELDOM < count for one in has):
            seen.update(has)
            yield known
