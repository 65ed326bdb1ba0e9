"""Searches run side by side, in rounds, on all cores.

In each round every unfinished search asks its batch. The questions of all batches are answered together, each
once, on threads: `paceline.replay` releases the interpreter while the engine runs. The next round starts when
all are answered. So neither the questions nor the answers depend on the number of threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from paceline.planning.asking import Asked, Search

__all__ = ["Answer", "Heed", "Rounds"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R")

Heed: TypeAlias = Callable[[float], None]
"""Reports the share of an answer that is computed; raises if no answer is wanted any more."""

Answer: TypeAlias = Callable[[K, Heed], V]

_POLL_S = 0.1


class _Stopped(Exception):
    """Ends a replay whose answer is not wanted any more."""


class _Failed(NamedTuple):
    """What an answer raised."""

    error: BaseException


class Rounds(Generic[K, V]):
    """Answers questions of searches, each once.

    Parameters
    ----------
    answer
        Computes the answer to a question, on any thread. It calls its second argument now and then.
    workers
        The number of threads.
    report
        Called on the calling thread with the answers computed so far, those under way counted by their share,
        and the number that is likely needed in all. None: not called.
    """

    def __init__(
        self, answer: Answer[K, V], *, workers: int, report: Callable[[float, float], object] | None
    ) -> None:
        self._answer = answer
        self._workers = workers
        self._report = report
        self._answers: dict[K, V] = {}
        self._shares: dict[K, float] = {}
        self._stop = threading.Event()

    def of(self, key: K) -> V:
        """Return an answer that was computed before."""
        return self._answers[key]

    def asked(self) -> list[K]:
        """Return all questions answered so far, in the order in which they were asked."""
        return list(self._answers)

    def run(self, searches: Sequence[Search[K, V, R]]) -> list[R]:
        """Run searches to their ends and return what each found, in their order.

        Raises
        ------
        PacelineError
            What an answer raises; of several in a round, the one that was asked first.
        """
        found: dict[int, R] = {}
        asked: dict[int, Asked[K]] = {}

        def advance(index: int, answers: list[V] | None) -> None:
            search = searches[index]
            asked.pop(index, None)
            try:
                asked[index] = next(search) if answers is None else search.send(answers)
            except StopIteration as end:
                found[index] = end.value

        for index in range(len(searches)):
            advance(index, None)
        while asked:
            new = [key for each in asked.values() for key in each.batch if key not in self._answers]
            self._compute(list(dict.fromkeys(new)), after=sum(each.after for each in asked.values()))
            for index in sorted(asked):
                advance(index, [self._answers[key] for key in asked[index].batch])
        return [found[index] for index in range(len(searches))]

    def _compute(self, keys: list[K], *, after: int) -> None:
        if not keys:
            return
        total = len(self._answers) + len(keys) + after
        pool = ThreadPoolExecutor(min(self._workers, len(keys)))
        ended: SimpleQueue[tuple[K, V | _Failed]] = SimpleQueue()
        try:
            for key in keys:
                pool.submit(self._answer_into, ended, key)
            answers = self._await(keys, ended, total)
        finally:
            # An interrupt, or an error of another answer: the replays under way end at their next report.
            self._stop.set()
            pool.shutdown(cancel_futures=True)
            self._stop.clear()
            self._shares.clear()
        self._answers.update(answers)
        self._show(total)

    def _await(self, keys: list[K], ended: SimpleQueue[tuple[K, V | _Failed]], total: float) -> dict[K, V]:
        """Wait for all answers, or for an error before which no other can be raised.

        A future is not asked: Python may interrupt this thread with the lock of a future held, for which the
        thread that has the answer would wait without end.
        """
        answers: dict[K, V] = {}
        errors: dict[K, BaseException] = {}
        while missing := [key for key in keys if key not in answers]:
            # In the order asked: an error of the first is raised, whichever thread failed first.
            if missing[0] in errors:
                raise errors[missing[0]]
            self._show(total)
            with suppress(Empty):
                key, answer = ended.get(timeout=_POLL_S)
                if isinstance(answer, _Failed):
                    errors[key] = answer.error
                else:
                    answers[key] = answer
        return {key: answers[key] for key in keys}

    def _answer_into(self, ended: SimpleQueue[tuple[K, V | _Failed]], key: K) -> None:
        try:
            ended.put((key, self._one(key)))
        except BaseException as error:  # raised by the waiting thread, whatever it is
            ended.put((key, _Failed(error)))

    def _one(self, key: K) -> V:
        def heed(share: float) -> None:
            if self._stop.is_set():
                raise _Stopped
            self._shares[key] = min(share, 1.0)

        return self._answer(key, heed)

    def _show(self, total: float) -> None:
        if self._report is not None:
            self._report(len(self._answers) + sum(tuple(self._shares.values())), total)
