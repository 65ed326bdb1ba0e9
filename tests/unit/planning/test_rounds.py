"""Searches side by side: questions answered once, errors and interrupts in a defined order."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from paceline.errors import PacelineError
from paceline.planning.asking import Asked, Search
from paceline.planning.rounds import Heed, Rounds


def asks(*batches: tuple[int, ...]) -> Search[int, int, int]:
    """Ask batches one after another, and return the sum of all answers."""
    total = 0
    for index, batch in enumerate(batches):
        total += sum((yield Asked(batch, after=sum(map(len, batches[index + 1 :])))))
    return total


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_each_question_is_answered_once_whatever_the_threads(workers: int) -> None:
    lock, asked = threading.Lock(), Counter[int]()

    def square(key: int, heed: Heed) -> int:
        with lock:
            asked[key] += 1
        return key * key

    rounds = Rounds[int, int](square, workers=workers, report=None)
    assert rounds.run([asks((1, 2), (3,)), asks((2, 3), (1, 4)), asks()]) == [14, 30, 0]
    assert set(asked.values()) == {1}
    assert rounds.asked() == [1, 2, 3, 4]
    assert rounds.of(3) == 9


def test_progress_counts_answers_and_shares_and_never_exceeds_the_total() -> None:
    reports: list[tuple[float, float]] = []

    def half(key: int, heed: Heed) -> int:
        heed(0.5)
        return key

    Rounds[int, int](half, workers=2, report=lambda *words: reports.append(words)).run(
        [asks((1, 2, 3), (4,))]
    )
    assert reports[-1] == (4, 4)
    assert all(0 <= done <= total == 4 for done, total in reports)
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)


@pytest.mark.parametrize("workers", [1, 4])
def test_of_several_errors_the_first_asked_is_raised_and_the_others_are_stopped(workers: int) -> None:
    later = threading.Event()

    def fail(key: int, heed: Heed) -> int:
        if key == 2:
            later.wait(5)  # the second fails after the third, if there is a thread for it
            raise PacelineError("second")
        if key == 3:
            later.set()
            raise PacelineError("third")
        if key == 4:
            while True:  # ends only when it is stopped
                heed(0.0)
        return key

    if workers == 1:
        later.set()
    with pytest.raises(PacelineError, match="second"):
        Rounds[int, int](fail, workers=workers, report=None).run([asks((1, 2, 3, 4))])


def test_an_interrupt_stops_all_answers_under_way() -> None:
    def endless(key: int, heed: Heed) -> int:
        while True:
            heed(0.0)

    def interrupt(done: float, total: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Rounds[int, int](endless, workers=3, report=interrupt).run([asks((1, 2, 3, 4, 5))])
