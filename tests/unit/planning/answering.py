"""Searches answered from a function, without a replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from paceline.planning.asking import Search

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")


def answered(search: Search[K, V, R], answer: Callable[[K], V]) -> tuple[R, list[K]]:
    """Return what a search finds, and all that it asked, in order."""
    asked: list[K] = []
    batch = next(search)
    while True:
        assert batch.batch, "an empty batch would never end"
        asked += batch.batch
        try:
            batch = search.send([answer(key) for key in batch.batch])
        except StopIteration as end:
            return end.value, asked
