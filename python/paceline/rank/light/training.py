"""Training the light family: a linear model by gradient descent with momentum, all examples at each step.

The objectives are convex and the features bounded, so that a few hundred steps with a falling rate come near
the optimum, and nothing has to be tuned. Nothing but the drawing of examples is random.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from paceline.rank.light.features import Features
from paceline.rank.light.simple import NAMES
from paceline.rank.objectives import Examples

__all__ = ["train"]

_MOMENTUM: Final = 0.9
_RATE: Final = 10.0


def train(
    rows: Features,
    examples: Examples,
    *,
    bits: int,
    penalty: float,
    steps: int,
    progress: Callable[[int, int], None] | None = None,
) -> npt.NDArray[np.float64]:
    """Return a weight for each column, those of simple features last.

    Parameters
    ----------
    rows
        Features of the samples.
    examples
        What the scores of the samples are to satisfy.
    bits
        N-grams are hashed to ``2 ** bits`` columns.
    penalty
        What half the sum of squared weights costs.
    steps
        Steps of descent.
    progress
        Called with the number of steps done and of all.
    """
    # The weight of a column that no sample has stays 0.
    rows, used = rows.narrowed()
    weights = np.zeros(len(used) + len(NAMES))
    velocity = np.zeros_like(weights)
    for step in range(steps):
        _, by_score = examples.loss(rows.scores(weights))
        velocity = _MOMENTUM * velocity + rows.gradient(by_score, len(used)) + penalty * weights
        weights -= _RATE * (1 - step / steps) * velocity
        if progress is not None:
            progress(step + 1, steps)
    trained = np.zeros((1 << bits) + len(NAMES))
    trained[used] = weights[: len(used)]
    trained[1 << bits :] = weights[len(used) :]
    return trained
