"""From scores to predicted tokens: quantiles of the lengths that answers of such a score had.

Scores are put in order and into bins of equally many samples; each bin has the quantiles of its lengths.
Between the middles of bins the quantiles are linear in the score, and they never fall as scores rise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from paceline import _check
from paceline.errors import RankError
from paceline.rank.checks import numbers

__all__ = ["LEVELS", "Calibration"]

LEVELS: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)

_BIN_SAMPLES: Final = 40
_MOST_BINS: Final = 25


@dataclass(frozen=True, slots=True)
class Calibration:
    """Quantiles of lengths by score.

    Attributes
    ----------
    scores
        The mean score of each bin, rising.
    tokens
        A row for each bin and a column for each of `LEVELS`.
    """

    scores: npt.NDArray[np.float64]
    tokens: npt.NDArray[np.float64]

    @classmethod
    def fit(cls, scores: npt.ArrayLike, lengths: npt.ArrayLike) -> Calibration:
        """Make bins of scores of samples that the ranker was not trained on.

        Raises
        ------
        RankError
            There is no sample, there are more scores than lengths or fewer, or a row is not a finite number.

        Examples
        --------
        >>> import numpy as np
        >>> made = Calibration.fit(np.arange(1000.0), np.arange(1000) // 10 + 1)
        >>> made.predict([500.0]).round().tolist()
        [51.0]
        """
        one, other = numbers("scores", scores), numbers("lengths", lengths)
        if len(one) != len(other) or not len(one):
            raise RankError(f"calibration needs as many scores as lengths, was {len(one)} and {len(other)}")
        bins = int(np.clip(len(one) // _BIN_SAMPLES, 1, _MOST_BINS))
        order = np.argsort(one, kind="stable")
        parts = np.array_split(order, bins)
        middles = np.array([one[part].mean() for part in parts])
        tokens = np.array([np.quantile(other[part], LEVELS) for part in parts])
        # A later bin may be shorter by chance: its quantiles and those before it are averaged.
        tokens = np.stack([_rising(column) for column in tokens.T], axis=1)
        distinct, first = np.unique(middles, return_index=True)
        return cls(distinct, tokens[first])

    def predict(self, scores: npt.ArrayLike, level: float = 0.5) -> npt.NDArray[np.float64]:
        """Return the predicted tokens of scores at a quantile.

        Parameters
        ----------
        scores
            Of the ranker that this is of.
        level
            Of the quantile, within `LEVELS`; 0.5 is the median.

        Raises
        ------
        RankError
            ``level`` is outside, or a score is not a number.
        """
        if not _check.is_number(level) or not LEVELS[0] <= level <= LEVELS[-1]:
            raise RankError(
                f"the quantile must be from {LEVELS[0]} to {LEVELS[-1]}, was {_check.said(level)}"
            )
        column = np.array([np.interp(level, LEVELS, row) for row in self.tokens])
        return np.asarray(np.interp(numbers("scores", scores, "a number"), self.scores, column))


def _rising(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the nearest values, by least squares, that never fall (pool adjacent violators)."""
    blocks: list[tuple[float, int]] = []
    for value in values.tolist():
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (last, size), (before, count) = blocks.pop(), blocks.pop()
            blocks.append(((last * size + before * count) / (size + count), size + count))
    return np.concatenate([np.full(count, value) for value, count in blocks])
