"""Work on other threads, for which the calling thread waits and may be interrupted at any moment.

Python raises an interrupt between two instructions of the main thread. If that thread waits for a future,
starts a `threading.Thread` or submits to a pool, the instruction before may have taken a lock, which is then
never released: the thread that has the result waits for the lock, and the main thread for that thread. So the
main thread starts another by one call of native code and waits for a `SimpleQueue`, which is native too. That
other thread, which no interrupt reaches, does the rest.
"""

from __future__ import annotations

import math
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Final, Generic, TypeAlias, TypeVar

__all__ = ["Call", "Heed", "Jobs"]

J = TypeVar("J")
R = TypeVar("R")

Heed: TypeAlias = Callable[[float], None]
"""Reports the share of a job that is done; raises if its result is not wanted any more."""

_POLL_S: Final = 0.1
"""How long a wait is: one without a timeout cannot be interrupted on every platform."""


class Call(Generic[R]):
    """One call on a thread of its own.

    Parameters
    ----------
    function
        What is called.

    Examples
    --------
    >>> call = Call(lambda: 7)
    >>> call.start()
    >>> call.result()
    7
    """

    def __init__(self, function: Callable[[], R]) -> None:
        self._function = function
        self._unbegun = Lock()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._results: list[R] = []
        self._errors: list[BaseException] = []
        self.ended = False

    def start(self) -> None:
        """Begin the call; `leave` is right also after an interrupt of this."""
        start_new_thread(self._run, ())

    def wait(self, seconds: float = _POLL_S) -> bool:
        """Wait until the call has ended, at most so long, and return whether it has."""
        if not self.ended:
            with suppress(Empty):
                self._bell.get(timeout=seconds)
        return self.ended

    def result(self) -> R:
        """Wait for the call, and return what it returned or raise what it raised."""
        while not self.wait():
            pass
        if self._errors:
            raise self._errors[0]
        return self._results[0]

    def leave(self) -> None:
        """Return once the call does not run, whether it has ended or never begins."""
        if self._unbegun.acquire(blocking=False):
            self.ended = True
        while not self.wait():
            pass

    def _run(self) -> None:
        if not self._unbegun.acquire(blocking=False):
            return
        try:
            self._results.append(self._function())
        except BaseException as error:  # raised by the thread that asks for the result, whatever it is
            self._errors.append(error)
        # Said before the bell is rung: an interrupt may come between the bell and what is done about it.
        self.ended = True
        self._bell.put(None)


class _Stopped(BaseException):
    """Ends a job whose result is not wanted any more; no error, so that a job does not record it as one."""


class Jobs(Generic[J, R]):
    """Jobs that threads do in their order.

    An error stops the jobs after the one that raised it, and is raised once those before it have ended: of
    several errors the first in the order of the jobs. An interrupt, or an error of the thread that takes the
    results, stops all.

    Parameters
    ----------
    jobs
        What is to be done.
    do
        Does one of them, on any thread. It calls its second argument now and then.
    workers
        The number of threads.

    Examples
    --------
    >>> Jobs([1, 2, 3], lambda job, heed: job * job, workers=2).results()
    [1, 4, 9]
    """

    def __init__(self, jobs: Sequence[J], do: Callable[[J, Heed], R], *, workers: int) -> None:
        self._jobs = jobs
        self._do = do
        self._workers = max(1, min(workers, len(jobs)))
        self._turn = Lock()
        self._next = 0
        self._wanted: float = math.inf
        self._stopped = False
        self._shares = [0.0] * len(jobs)
        self._errors: dict[int, BaseException] = {}
        self._ended: deque[tuple[int, R]] = deque()

    def ended(self) -> Generator[tuple[int, R] | None, None, None]:
        """Do the jobs; yield the place and the result of each that has ended, and None as time passes.

        The calling thread looks about ten times a second: while it runs, the jobs wait for the interpreter.
        Closing the generator stops the jobs.
        """
        call = Call(self._all)
        try:
            call.start()
            over = False
            while not over:
                over = call.wait()
                while self._ended:
                    yield self._ended.popleft()
                yield None
            call.result()
            if self._errors:
                raise self._errors[min(self._errors)]
        finally:
            self._stopped = True
            call.leave()

    def results(self, report: Callable[[float], object] | None = None) -> list[R]:
        """Do the jobs and return their results, in their order.

        Parameters
        ----------
        report
            Called with the number of jobs that are done, those under way counted by their share.
        """
        results: dict[int, R] = {}
        if report is not None:
            report(0.0)
        with closing(self.ended()) as ended:
            for each in ended:
                if each is not None:
                    place, result = each
                    results[place] = result
                elif report is not None:
                    report(math.fsum(self._shares))
        return [results[place] for place in range(len(self._jobs))]

    def _all(self) -> None:
        started: list[Thread] = []
        try:
            for _ in range(self._workers):
                thread = Thread(target=self._work)
                thread.start()
                started.append(thread)
        finally:
            for thread in started:
                thread.join()

    def _work(self) -> None:
        while True:
            with self._turn:
                place = self._next
                if place == len(self._jobs) or self._unwanted(place):
                    return
                self._next += 1
            try:
                result = self._do(self._jobs[place], partial(self._heed, place))
            except BaseException as error:  # raised by the thread that takes the results, whatever it is
                with self._turn:
                    self._errors[place] = error
                    self._wanted = min(self._wanted, place)
            else:
                self._shares[place] = 1.0
                self._ended.append((place, result))

    def _unwanted(self, place: int) -> bool:
        return self._stopped or place > self._wanted

    def _heed(self, place: int, share: float) -> None:
        if self._unwanted(place):
            raise _Stopped
        self._shares[place] = min(share, 1.0)
