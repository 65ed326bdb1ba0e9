"""Checking random cases for some time, in one process or several."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from search.case import Case
from search.counts import Counts
from search.process import Worker


@dataclass
class Found:
    """The outcome of a search.

    Attributes
    ----------
    seed : int
    seconds : float
        Duration.
    counts : Counts
    kinds : dict of str to list of int
        Numbers of the cases that fail, by the first promise that each breaks.
    details : dict
        The detail of a failure, by its kind and the number of its case.
    cases : dict of int to Case
        The cases that fail, by their numbers.
    """

    seed: int
    seconds: float = 0.0
    counts: Counts = field(default_factory=Counts)
    kinds: dict[str, list[int]] = field(default_factory=dict)
    details: dict[tuple[str, int], str] = field(default_factory=dict)
    cases: dict[int, Case] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def failed(self, number: int, case: Case, kind: str, detail: str) -> None:
        """Note that a case fails."""
        self.kinds.setdefault(kind, []).append(number)
        self.details[kind, number] = detail
        self.cases[number] = case


def search(
    seed: int, seconds: float, workers: int, package: Path | None = None, avoid: Sequence[str] = ()
) -> Found:
    """Check random cases for some time.

    Parameters
    ----------
    seed
        Another seed draws other cases.
    seconds
        Duration.
    workers
        Processes.
    package
        Folder with the package ``paceline`` to check; None: this tree's.
    avoid
        Mechanisms, by their names in the report: cases that have one are left out.
    """
    found = Found(seed)
    started = time.monotonic()
    threads = [
        threading.Thread(target=_work, args=(found, index, workers, started + seconds, package, avoid))
        for index in range(workers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.seconds = time.monotonic() - started
    _look_again(found, package)
    return found


def _look_again(found: Found, package: Path | None) -> None:
    """Check cases that ran out of time once more, alone: a busy machine is no defect."""
    for kind in [kind for kind in found.kinds if kind.startswith(("hang", "died", "memory"))]:
        for number in found.kinds.pop(kind):
            found.counts.asked["taking long"] += 1
            with Worker(package) as worker:
                failures, _ = worker.check(found.cases[number], number)
            for again, detail in failures[:1]:
                found.failed(number, found.cases[number], again, detail)


def _work(
    found: Found, start: int, stride: int, deadline: float, package: Path | None, avoid: Sequence[str]
) -> None:
    number, case = start, b""
    with Worker(package) as worker:
        while (left := deadline - time.monotonic()) > 0:
            worker.ask(seed=found.seed, start=number, stride=stride, seconds=left, avoid=list(avoid))
            for said in worker.answers():
                if "at" in said:
                    number, case = said["at"], base64.b64decode(said["case"])
                    continue
                with found.lock:
                    number = _hear(found, said, number, case, stride)


def _hear(found: Found, said: dict[str, Any], number: int, case: bytes, stride: int) -> int:
    """Record a worker's answer about a case; return the number of the next one."""
    if "died" in said:
        found.counts.cases += 1
        found.failed(number, Case.from_json(case), said["died"], "")
        return number + stride
    if said.get("failures"):
        (kind, detail), *others = said["failures"]
        also = "".join(f"; {other}" for other in sorted({one for one, _ in others} - {kind}))
        found.failed(number, Case.from_json(case), kind, detail + also)
    if "counts" in said:
        found.counts.take(said["counts"])
    return int(said.get("next", number))
