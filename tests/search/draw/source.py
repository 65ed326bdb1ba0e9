"""The source of all random choices: a seed gives the same case on any machine."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Source:
    """Random choices, and the unit in which a case's times are whole.

    With times of a few ticks, events often coincide. With times of many ticks, the engine can leap over
    conditions on time, which it evaluates some thousand ticks ahead of their bounds.

    Attributes
    ----------
    unit : int
        Ticks; all spans drawn are whole multiples of it.
    pressed : bool
        Whether many requests arrive at once with memory for few, so that some are preempted.
    """

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self.unit = self.pick((1, 1, 10**6, 10**9))
        self.pressed = self.chance(0.6)

    def pick(self, values: Sequence[T]) -> T:
        """Return one of some values; a value given twice is twice as likely."""
        return values[int(self._random.random() * len(values))]

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def whole(self, least: int, most: int) -> int:
        return least + int(self._random.random() * (most - least + 1))

    def ticks(self, least: int, most: int) -> int:
        return self.whole(least, most) * self.unit

    def maybe(self, probability: float, make: Callable[[], T]) -> T | None:
        return make() if self.chance(probability) else None

    def some(self, least: int, most: int, make: Callable[[], T]) -> list[T]:
        return [make() for _ in range(self.whole(least, most))]

    def shuffled(self, values: Sequence[T]) -> list[T]:
        return self._random.sample(list(values), len(values))
