"""Replays, repeated with each mutant that they reach and that no other has killed."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mutation.cases import Checked, Further, Known
from paceline import _fork

MEMORY = 2 << 30
SHORTEST_S = 0.4
ENTERED = 2
VARIED = 500
LONGER = 8
"""A replay hangs after this many times the processor time without a mutant."""


class Engine:
    """The engine with all mutants, in this process."""

    def __init__(self, module: Path, mutants: int) -> None:
        self._size = mutants + 1
        library = ctypes.CDLL(str(module))
        self._activate = library.paceline_mutant_activate
        self._activate.argtypes = [ctypes.c_uint32]
        library.paceline_mutants_reached.restype = ctypes.c_void_p
        self._reached: int = library.paceline_mutants_reached()

    def activate(self, number: int) -> None:
        self._activate(number)

    def forget(self) -> None:
        """Forget which mutants were reached."""
        ctypes.memset(self._reached, 0, self._size)

    def reached(self) -> bytes:
        """Return a byte for each mutant: 0 if it was not reached; `ENTERED`: what it leaves out had begun."""
        return ctypes.string_at(self._reached, self._size)


@dataclass(slots=True)
class Found:
    """What is found of a mutant.

    Attributes
    ----------
    line : int
    killed : str or None
        How it was noticed; None: it was not.
    by : str
        The replay that noticed it.
    ran : int
        Replays that reach it, up to the one that noticed it.
    differ : list of str
        Names of replays with another outcome, in which no check notices a fault.
    slower, faster : int
        Replays with the same outcome in more events, or in fewer.
    tests : int
        Tests of the core that reach it.
    """

    line: int
    killed: str | None = None
    by: str = ""
    ran: int = 0
    differ: list[str] = field(default_factory=list)
    slower: int = 0
    faster: int = 0
    tests: int = 0

    @property
    def reached(self) -> bool:
        return bool(self.ran or self.tests)


@dataclass(slots=True)
class Replay:
    """A replay without a mutant.

    Attributes
    ----------
    known : Known
    outcome : tuple of str and int
    seconds : float
        Processor time.
    near : dict of str to int
        How many mutants of each file it reaches.
    sound : bool or None
        Whether the unchanged engine passes its checks; None: not asked yet.
    """

    known: Known
    outcome: tuple[str, int]
    seconds: float
    near: Mapping[str, int]
    sound: bool | None = None


class Replays:
    """Asks replays about mutants: first those that noticed other mutants of the same function.

    Of the others, every second one reaches the most mutants of the same file; the rest have all mechanisms,
    if so many can.

    Attributes
    ----------
    ran, refused : int
        Replays without a mutant, and those that the engine refuses.
    asked : int
        Replays with a mutant.
    left_out : list of str
        Those whose checks fail without a mutant.
    """

    def __init__(
        self, engine: Engine, places: Mapping[int, str], noticed: Iterable[tuple[str, str]] = ()
    ) -> None:
        self._engine, self._places = engine, places
        self._replays: list[Replay] = []
        self._names: list[str] = []
        self._varied: list[int] = []
        # By mutant: the replays that reach it and have not been asked about it.
        self._reaching: dict[int, list[int]] = {number: [] for number in places}
        # Those that have been asked about it.
        self._asked: dict[int, list[int]] = {number: [] for number in places}
        # Those of all in which what the mutant leaves out had begun.
        self._entered: dict[int, set[int]] = {number: set() for number in places}
        self._files = {number: place.partition(" ")[0] for number, place in places.items()}
        # By function and name of a replay: the mutants that it noticed.
        self._noticed = Counter(noticed)
        self.ran = self.refused = self.asked = 0
        self.left_out: list[str] = []

    def add(self, known: Known) -> None:
        """Replay without a mutant; the replay is asked about the mutants that it reaches from now on."""
        self._engine.activate(0)
        try:
            refused = isinstance(known, Checked) and known.is_refused()
        except BaseException as error:  # A panic of the engine is no `Exception`.
            if not isinstance(known, Further):
                raise
            refused = True
            self.left_out.append(f"{known.name}: {type(error).__name__}")
        if refused:
            self.refused += 1
            return
        self._engine.forget()
        started = time.process_time()
        outcome = known.outcome()
        seconds, reached = time.process_time() - started, self._engine.reached()
        for number, replays in self._reaching.items():
            if reached[number]:
                replays.append(len(self._replays))
            if reached[number] == ENTERED:
                self._entered[number].add(len(self._replays))
        near = Counter(file for number, file in self._files.items() if reached[number])
        self._replays.append(Replay(known, outcome, seconds, near))
        self._names.append(known.name)
        self.ran += 1

    def ask_all(self, mutants: Mapping[int, Found], names: Set[str]) -> None:
        """Ask all of these replays about each mutant that is not noticed yet and that they reach."""
        for at, name in enumerate(self._names):
            if name in names:
                numbers = [number for number in mutants if at in self._reaching[number]]
                self._ask_one(at, numbers, mutants)

    def ask(self, mutants: Mapping[int, Found], most: int) -> None:
        """Ask about each mutant that is not noticed yet until ``most`` replays have been asked."""
        self._ask_each(mutants, {number: most - found.ran for number, found in mutants.items()})

    def ask_more(self, mutants: Mapping[int, Found], more: int) -> None:
        """Ask so many more replays about each mutant that is not noticed yet."""
        self._ask_each(mutants, dict.fromkeys(mutants, more))

    def _ask_each(self, mutants: Mapping[int, Found], counts: Mapping[int, int]) -> None:
        self._varied = varied([replay.known.mechanisms for replay in self._replays])
        planned: dict[int, list[int]] = defaultdict(list)
        for number, found in mutants.items():
            if found.killed is None:
                for at in self._chosen(number, counts[number]):
                    planned[at].append(number)
        for at in sorted(planned):
            self._ask_one(at, planned[at], mutants)

    def _ask_one(self, at: int, numbers: Iterable[int], mutants: Mapping[int, Found]) -> None:
        asked = [number for number in numbers if mutants[number].killed is None]
        for number in asked:
            self._reaching[number].remove(at)
            self._asked[number].append(at)
        self._ask(at, asked, mutants)

    def others(self, places: Mapping[int, str]) -> Replays:
        """Return what asks other replays about these mutants."""
        others = Replays(self._engine, places)
        others._noticed = self._noticed
        return others

    def around(self, number: int, count: int) -> list[Known]:
        """Return replays that were asked about a mutant: those that run the most around it."""
        asked = sorted(self._asked[number], key=lambda at: self._nearness(number, at))
        return [self._replays[at].known for at in asked[:count]]

    def all(self) -> list[Known]:
        """Return all replays."""
        return [replay.known for replay in self._replays]

    def reaching(self, number: int) -> list[Known]:
        """Return all replays that reach a mutant, or if none does, another one of its function."""
        place = self._places[number]
        several = {*self._reaching[number], *self._asked[number]}
        for other in () if several else self._places:
            if self._places[other] == place:
                several |= {*self._reaching[other], *self._asked[other]}
        return [self._replays[at].known for at in sorted(several)]

    def _chosen(self, number: int, count: int) -> list[int]:
        """Return the replays to ask next: first those that noticed others of the function."""
        place, reaching, names = self._places[number], self._reaching[number], self._names
        if count <= 0:
            return []
        noticed = [at for at in reaching if self._noticed[place, names[at]]]
        noticed.sort(key=lambda at: (-self._noticed[place, names[at]], at))
        others = [at for at in reaching if not self._noticed[place, names[at]]]
        more = max(count - len(noticed), 0)
        if more >= len(others):
            return noticed[:count] + others
        near = sorted(others, key=lambda at: self._nearness(number, at))[: more // 2]
        others = {*others}.difference(near)
        return noticed[:count] + near + [at for at in self._varied if at in others][: more - len(near)]

    def _nearness(self, number: int, at: int) -> tuple[bool, int, int]:
        """Sort what reaches a mutant: first that which runs the most around it."""
        return at not in self._entered[number], -self._replays[at].near[self._files[number]], at

    def _ask(self, at: int, numbers: list[int], mutants: Mapping[int, Found]) -> None:
        replay = self._replays[at]
        for number, said in self._told(
            replay.known, numbers, replay.outcome, SHORTEST_S + LONGER * replay.seconds
        ):
            self.asked += 1
            if said.get("killed") and replay.sound is None:
                replay.sound = self._is_sound(replay.known)
            if replay.sound is False:
                return
            found = mutants[number]
            found.ran += 1
            if said.get("killed"):
                found.killed, found.by = said["killed"], replay.known.name
                self._noticed[self._places[number], found.by] += 1
            found.slower += said.get("slower", 0)
            found.faster += said.get("faster", 0)
            if said.get("differs"):
                found.differ.append(replay.known.name)

    def _is_sound(self, known: Known) -> bool:
        """Whether the unchanged engine passes the checks that a mutant failed.

        A process of its own makes them: they bound its time, and start threads of polars', which this process
        must not have when it forks.
        """
        child = os.fork()
        if child == 0:
            status = 1
            try:
                _fork._left_behind = False
                self._engine.activate(0)
                status = 0 if known.failure() is None else 1
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        if status != 0:
            self.left_out.append(known.name)
        return status == 0

    def _told(
        self, known: Known, numbers: list[int], outcome: tuple[str, int], seconds: float
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield each mutant with what a replay says of it, from a process that may hang or die."""
        while numbers:
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(reading)
                self._replay_all(known, numbers, outcome, seconds, writing)
            os.close(writing)
            with os.fdopen(reading) as told:
                lines = [json.loads(line) for line in told]
            _, status = os.waitpid(child, 0)
            yield from zip(numbers, lines, strict=False)
            numbers = numbers[len(lines) :]
            if os.WIFSIGNALED(status) and numbers:
                died = os.WTERMSIG(status)
                hang = died in (signal.SIGVTALRM, signal.SIGXCPU)
                yield numbers[0], {"killed": "hang" if hang else f"died: {signal.Signals(died).name}"}
                numbers = numbers[1:]

    def _replay_all(
        self, known: Known, numbers: Iterable[int], outcome: tuple[str, int], seconds: float, writing: int
    ) -> None:
        """Replay with each mutant, and tell the parent process after each; never returns."""
        status = 1
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY, resource.RLIM_INFINITY))
            # A collection of all that the parent process has would count as time of the replay.
            gc.disable()
            # No thread of polars' runs in the process that was forked.
            _fork._left_behind = False
            for number in numbers:
                self._engine.activate(number)
                signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
                os.write(writing, json.dumps(_compared(known, outcome)).encode() + b"\n")
            status = 0
        finally:
            os._exit(status)


def varied(several: Sequence[Set[str]]) -> list[int]:
    """Return the places of sets in an order in which the first ones have all that any of them has, if few do.

    The next ones have all of it again.
    """
    bits = {name: 1 << at for at, name in enumerate(sorted(set().union(*several)))}
    masks = {at: sum(bits[name] for name in each) for at, each in enumerate(several)}
    order: list[int] = []
    missing = 0
    while masks and len(order) < VARIED:
        if missing == 0:
            missing = (1 << len(bits)) - 1
        best = max(masks, key=lambda at: ((masks[at] & missing).bit_count(), -at))
        missing = missing & ~masks[best] if masks[best] & missing else 0
        order.append(best)
        if masks.pop(best) == 0:
            break
    return order + sorted(masks)


def _compared(known: Known, outcome: tuple[str, int]) -> dict[str, Any]:
    """Replay, and compare with the outcome without a mutant; if it differs, make all checks."""
    try:
        again = known.outcome()
        said: dict[str, Any] = {"slower": again[1] > outcome[1], "faster": again[1] < outcome[1]}
        if again[0] != outcome[0]:
            said["killed"] = known.failure()
            said["differs"] = said["killed"] is None
    except BaseException as error:  # A panic of the engine is no `Exception`.
        said = {"killed": f"{type(error).__name__}: {error}"[:200]}
    return said


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
