"""Which replays reach which mutants, and the replays that notice a mutant."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutation.cases import Checked, Known
from paceline import _fork

MEMORY = 2 << 30
SHORTEST_S = 0.4
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
        """Return a byte for each mutant, 1 if it was reached."""
        return ctypes.string_at(self._reached, self._size)


@dataclass(slots=True)
class Covering:
    """A replay, what it reaches, and its outcome without a mutant."""

    known: Known
    reached: bytes
    outcome: tuple[str, int]
    seconds: float
    kills: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What replays say of a mutant.

    Attributes
    ----------
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
    """

    killed: str | None
    by: str
    ran: int
    differ: list[str]
    slower: int
    faster: int


class Replays:
    """The replays that are asked about mutants."""

    def __init__(self, engine: Engine, replays: Iterable[Known]) -> None:
        engine.activate(0)
        self._engine = engine
        self.coverings = [
            self._cover(known) for known in replays if not (isinstance(known, Checked) and known.is_refused())
        ]
        self.left_out: list[str] = []
        self._sound: set[str] = set()

    def _cover(self, known: Known) -> Covering:
        self._engine.forget()
        started = time.process_time()
        outcome = known.outcome()
        return Covering(known, self._engine.reached(), outcome, time.process_time() - started)

    def reach(self, number: int) -> bool:
        """Whether a replay reaches a mutant."""
        return any(one.reached[number] for one in self.coverings)

    def ask(self, number: int, most: int) -> Answer:
        """Replay with a mutant until one notices it."""
        while True:
            answer, by = ask(self._engine, number, self.coverings, most)
            if by is None or self._is_sound(by):
                return answer
            self.coverings.remove(by)
            self.left_out.append(by.known.name)

    def _is_sound(self, one: Covering) -> bool:
        """Whether the unchanged engine passes the checks that a mutant failed."""
        if one.known.name not in self._sound:
            self._engine.activate(0)
            if one.known.failure() is not None:
                return False
            self._sound.add(one.known.name)
        one.kills += 1
        return True


def ask(
    engine: Engine, number: int, coverings: Sequence[Covering], most: int
) -> tuple[Answer, Covering | None]:
    """Replay with a mutant until one notices it, in a process of its own, which may hang or die."""
    reaching = [one for one in coverings if one.reached[number]]
    reaching.sort(key=lambda one: (-one.kills, one.seconds))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _replay_all(engine, number, reaching[:most], writing)
    os.close(writing)
    answer: dict[str, Any] = {"killed": None, "at": 0, "differ": [], "slower": 0, "faster": 0}
    with os.fdopen(reading) as told:
        for line in told:
            answer |= json.loads(line)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        died = os.WTERMSIG(status)
        hang = died in (signal.SIGVTALRM, signal.SIGXCPU)
        answer["killed"] = "hang" if hang else f"died: {signal.Signals(died).name}"
    by = reaching[answer["at"]] if answer["killed"] else None
    ran = answer["at"] + 1 if by is not None else min(most, len(reaching))
    name = "" if by is None else by.known.name
    return Answer(answer["killed"], name, ran, answer["differ"], answer["slower"], answer["faster"]), by


def _replay_all(engine: Engine, number: int, reaching: Sequence[Covering], writing: int) -> None:
    """Replay each, and tell the parent process before each and at the end; never returns."""
    status = 1
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY, resource.RLIM_INFINITY))
        # A replay of columns takes no thread of polars'.
        _fork._left_behind = False
        engine.activate(number)
        differ: list[str] = []
        slower = faster = 0
        for at, one in enumerate(reaching):
            os.write(writing, f'{{"at":{at}}}\n'.encode())
            signal.setitimer(signal.ITIMER_VIRTUAL, SHORTEST_S + LONGER * one.seconds)
            killed = None
            try:
                outcome = one.known.outcome()
                if outcome[0] != one.outcome[0]:
                    killed = one.known.failure()
                    if killed is None:
                        differ.append(one.known.name)
                slower += outcome[1] > one.outcome[1]
                faster += outcome[1] < one.outcome[1]
            except BaseException as error:  # A panic of the engine is no `Exception`.
                killed = f"{type(error).__name__}: {error}"[:200]
            said = {"killed": killed, "differ": differ, "slower": slower, "faster": faster}
            os.write(writing, json.dumps(said).encode() + b"\n")
            if killed is not None:
                break
        status = 0
    finally:
        os._exit(status)


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
