"""The features of the light family: hashed n-grams, and simple features behind them.

Each n-gram is hashed to a column and counted as 1 + log(occurrences); `paceline.rank.light.grams` says which
there are. Nothing is learned from the data, so that the features of a prompt never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from paceline.rank.light.grams import SCALES, grams
from paceline.rank.light.simple import NAMES, simple_features

__all__ = ["SIMPLE_SCALE", "VERSION", "Features", "features"]

VERSION: Final = 2
"""Raised with any change to the features: models of another version are refused."""

SIMPLE_SCALE: Final = 0.07
"""The factor of simple features beside n-grams of a row of length 1, chosen as the scales of these."""


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

    def narrowed(self) -> tuple[Features, npt.NDArray[np.int64]]:
        """Return the same rows with only the columns that some row has, and those columns in order."""
        used, columns = np.unique(self.columns, return_inverse=True)
        return Features(columns, self.values, self.starts, self.simple), used

    def gradient(self, by_score: npt.NDArray[np.float64], width: int) -> npt.NDArray[np.float64]:
        """Return the gradient by the weights, of ``width`` n-grams, from that by the scores."""
        spread = np.repeat(by_score, self.counts) * self.values
        grams = np.bincount(self.columns, weights=spread, minlength=width)
        return np.concatenate([grams, self.simple.T @ by_score])


def features(prompts: Sequence[str], bits: int) -> Features:
    """Return the features of prompts, with n-grams hashed to ``2 ** bits`` columns."""
    if not prompts:
        nothing = np.empty(0, dtype=np.int64)
        return Features(nothing, np.empty(0), nothing, np.empty((0, len(NAMES))))
    cells, columns = grams(prompts, bits)
    key, occurrences = np.unique((cells << bits) | columns, return_counts=True)
    columns, cells = key & ((1 << bits) - 1), key >> bits
    values = 1.0 + np.log(occurrences)
    blocks = len(SCALES)
    squares = np.bincount(cells, weights=values * values, minlength=len(prompts) * blocks)
    values *= SCALES[cells % blocks] / np.sqrt(squares[cells])
    counts = np.bincount(cells // blocks, minlength=len(prompts))
    simple = SIMPLE_SCALE * simple_features(prompts).astype(np.float64)
    return Features(columns, values, np.cumsum(counts) - counts, simple)
