"""The protocol between a search and what replays for it.

A search is a generator. It yields batches of questions, receives the answers to each batch in order, and
returns what it found. What it asks next depends on earlier answers only, so the outcome depends neither on
the number of threads nor on which replay ends first.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

__all__ = ["BATCH", "Asked", "Search"]

BATCH = 4
"""Questions of a batch where a search may choose.

It is not the number of cores, on which the answer would then depend. A batch of k rates divides a bracket by
k + 1. Eight would save a machine of eight cores one round in three, and cost a machine of two 38% more
replays (log 5 / 4 against log 9 / 8).
"""

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Asked(Generic[K]):
    """A batch of questions.

    Parameters
    ----------
    batch
        The questions, each a key.
    after
        How many questions are likely to follow this batch, for progress.
    """

    batch: tuple[K, ...]
    after: int


Search: TypeAlias = Generator[Asked[K], list[V], R]
"""A search that asks questions K, receives answers V and returns R."""
