"""The features of the light family: hashed n-grams of words, and simple features behind them.

A prompt's n-grams are its words, pairs of neighbouring words, its first four words with their place, and its
first two and three words together. Each is hashed to a column. A row of n-grams has length 1, each counted
as 1 + log(occurrences). Nothing is learned from the data, so that the features of a prompt never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from paceline.rank.light.simple import NAMES, simple_features
from paceline.rank.light.words import hashed_words, words

__all__ = ["SIMPLE_SCALE", "VERSION", "Features", "features"]

VERSION: Final = 1
"""Raised with any change to the features: models of another version are refused."""

SIMPLE_SCALE: Final = 0.1
"""The factor of simple features, so that the penalty weighs them as n-grams of a row of length 1."""

_PLACES: Final = 4

# Kinds of n-grams are hashed apart by these, which are arbitrary.
_WORD, _PAIR, _PLACED, _START = (np.uint64(each) for each in (0x11, 0x22, 0x33, 0x44))
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(32)


@dataclass(frozen=True, slots=True)
class Features:
    """Rows of features, as n-grams in compressed rows and simple features in full.

    Attributes
    ----------
    columns, values
        The column and value of each n-gram, all rows behind each other.
    starts
        Where each row starts; every row has at least one n-gram.
    simple
        A row each, in the order of `NAMES`.
    """

    columns: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    starts: npt.NDArray[np.int64]
    simple: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """The number of n-grams of each row."""
        return np.diff(self.starts, append=len(self.columns))

    def rows(self, chosen: npt.NDArray[np.int64]) -> Features:
        """Return some rows, in the order given."""
        counts = self.counts[chosen]
        starts = np.cumsum(counts) - counts
        where = np.arange(int(counts.sum())) + np.repeat(self.starts[chosen] - starts, counts)
        return Features(self.columns[where], self.values[where], starts, self.simple[chosen])

    def scores(self, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Multiply with a weight for each column, those of simple features last."""
        grams, simple = weights[: -len(NAMES)], weights[-len(NAMES) :]
        # Added in the order of the columns, so that scores are the same on every machine.
        total = np.add.reduceat(grams[self.columns] * self.values, self.starts) if len(self) else np.empty(0)
        for position, weight in enumerate(simple):
            total = total + weight * self.simple[:, position]
        return total

    def gradient(self, by_score: npt.NDArray[np.float64], bits: int) -> npt.NDArray[np.float64]:
        """Return the gradient by the weights from that by the scores."""
        spread = np.repeat(by_score, self.counts) * self.values
        grams = np.bincount(self.columns, weights=spread, minlength=1 << bits)
        return np.concatenate([grams, self.simple.T @ by_score])


def features(prompts: Sequence[str], bits: int) -> Features:
    """Return the features of prompts, with n-grams hashed to ``2 ** bits`` columns."""
    texts = [words(prompt) or [""] for prompt in prompts]
    hashes, ends = hashed_words(texts)
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64) if len(ends) else np.empty(0, dtype=np.int64)
    lengths = ends - starts
    row = np.repeat(np.arange(len(texts)), lengths)
    place = np.arange(len(hashes)) - starts[row]
    left = lengths[row] - place  # words from this one to the end
    rows, columns = [row], [_column(_mixed(_WORD, hashes), bits)]

    def add(where: npt.NDArray[np.intp], kind: np.uint64, *parts: npt.NDArray[np.uint64]) -> None:
        rows.append(row[where])
        columns.append(_column(_mixed(kind, *parts), bits))

    pair = np.flatnonzero(left >= 2)
    add(pair, _PAIR, hashes[pair], hashes[pair + 1])
    placed = np.flatnonzero(place < _PLACES)
    add(placed, _PLACED, hashes[placed], place[placed].astype(np.uint64))
    for count in (2, 3):
        first = np.flatnonzero((place == 0) & (left >= count))
        add(first, _START, *(hashes[first + offset] for offset in range(count)))
    return _compressed(
        np.concatenate(rows), np.concatenate(columns), len(texts), bits, simple_features(prompts)
    )


def _mixed(kind: np.uint64, *parts: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Hash numbers together, in 64 bits that wrap."""
    state = np.full(len(parts[0]), kind, dtype=np.uint64)
    for part in parts:
        state = (state ^ part) * _MULTIPLIER
        state ^= state >> _SHIFT
    return state


def _column(hashes: npt.NDArray[np.uint64], bits: int) -> npt.NDArray[np.int64]:
    return (hashes * _MULTIPLIER >> np.uint64(64 - bits)).astype(np.int64)


def _compressed(
    row: npt.NDArray[np.int64],
    column: npt.NDArray[np.int64],
    rows: int,
    bits: int,
    simple: npt.NDArray[np.float32],
) -> Features:
    """Count equal columns of a row, and scale rows to length 1."""
    key, occurrences = np.unique((row << bits) | column, return_counts=True)
    columns, row = key & ((1 << bits) - 1), key >> bits
    values = 1.0 + np.log(occurrences)
    counts = np.bincount(row, minlength=rows)
    length = np.sqrt(np.bincount(row, weights=values * values, minlength=rows))
    values /= length[row]
    return Features(columns, values, np.cumsum(counts) - counts, SIMPLE_SCALE * simple.astype(np.float64))
