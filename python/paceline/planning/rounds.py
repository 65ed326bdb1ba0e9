"""Searches run side by side, in rounds, on all cores.

In each round every unfinished search asks its batch. The questions of all batches are answered together, each
once, on threads: `paceline.replay` releases the interpreter while the engine runs. The next round starts when
all are answered. So neither the questions nor the answers depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeAlias, TypeVar

from paceline._jobs import Heed, Jobs
from paceline.planning.asking import Asked, Search

__all__ = ["Answer", "Rounds"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R")

Answer: TypeAlias = Callable[[K, Heed], V]


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
        before, report = len(self._answers), self._report
        total = before + len(keys) + after

        def show(done: float) -> None:
            if report is not None:
                report(before + done, total)

        answers = Jobs(keys, self._answer, workers=self._workers).results(show)
        self._answers.update(zip(keys, answers, strict=True))
