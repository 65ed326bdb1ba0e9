"""Scores of a wanted quality, to ask how good a predictor must be.

Both kinds give scores whose Kendall tau-b against the true lengths is as wanted, and differ in how they err:
``gaussian`` moves every request a little, ``outliers`` scores most exactly and a few at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from paceline import _check
from paceline.errors import RankError
from paceline.rank.checks import numbers
from paceline.rank.metrics import kendall_tau

__all__ = ["noisy_scores"]

# Beyond this many samples the strength of the noise is searched on a sample of them, whose tau has a standard
# error of less than 0.005.
_SEARCHED_ON: Final = 20_000

_HALVINGS: Final = 40


def noisy_scores(
    lengths: npt.ArrayLike,
    *,
    tau: float,
    kind: Literal["gaussian", "outliers"] = "gaussian",
    seed: int = 0,
) -> npt.NDArray[np.float64]:
    """Return scores with a wanted Kendall tau-b against lengths, higher for longer.

    Parameters
    ----------
    lengths
        True lengths, at least two of them different.
    tau
        From -1 to 1; 1 gives the order of the lengths, 0 one that has nothing to do with them. If lengths
        tie, values between the highest that scores without ties reach and 1 cannot be had, and the nearest
        is.
    kind
        ``"gaussian"``: normal noise on the normal scores of the lengths. ``"outliers"``: a share of the
        requests have the length of another, drawn at random, as their score.
    seed
        The same seed gives the same scores.

    Raises
    ------
    RankError
        ``tau`` is no number from -1 to 1, ``kind`` is unknown, or the lengths are not usable.

    Examples
    --------
    >>> import numpy as np
    >>> from paceline.rank import kendall_tau
    >>> lengths = np.arange(1, 2001)
    >>> round(kendall_tau(noisy_scores(lengths, tau=0.5), lengths), 2)
    0.5
    """
    _check.one_of("kind", kind, ("gaussian", "outliers"), RankError)
    if not _check.is_number(tau) or not -1 <= tau <= 1:
        raise RankError(f"tau must be a number from -1 to 1, was {_check.said(tau)}")
    _check.count("seed", seed, least=0, error=RankError)
    values = numbers("lengths", lengths)
    kendall_tau(values, values)  # refuses lengths that have no order
    if tau < 0:
        return -noisy_scores(values, tau=-tau, kind=kind, seed=seed)
    if tau == 1:
        return values.copy()
    rng = np.random.default_rng(seed)
    make = (_gaussian if kind == "gaussian" else _outliers)(values, rng)
    sample = np.arange(len(values))
    if len(values) > _SEARCHED_ON:
        sample = rng.choice(len(values), size=_SEARCHED_ON, replace=False)
    return make(_strength(make, values, sample, float(tau)))


def _strength(
    make: Callable[[float], npt.NDArray[np.float64]],
    lengths: npt.NDArray[np.float64],
    sample: npt.NDArray[np.int64],
    tau: float,
) -> float:
    """Halve the interval of strengths until the tau of the sample is as near as it gets."""

    def reached(strength: float) -> float:
        scores = make(strength)[sample]
        return kendall_tau(scores, lengths[sample]) if np.ptp(scores) > 0 else 0.0

    # Below 0 the order turns round, which a sample's tau of 0 may take.
    low, high = -1.0, 1.0
    best, nearest = 0.0, math.inf
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = reached(middle)
        if abs(found - tau) < nearest:
            best, nearest = middle, abs(found - tau)
        if found == tau or high - low < 1e-12:
            break
        low, high = (middle, high) if found < tau else (low, middle)
    return best


def _gaussian(
    lengths: npt.NDArray[np.float64], rng: np.random.Generator
) -> Callable[[float], npt.NDArray[np.float64]]:
    """Mix the lengths' normal scores with normal noise that is uncorrelated with them in the sample."""
    _, place, counts = np.unique(lengths, return_inverse=True, return_counts=True)
    middle = (np.cumsum(counts) - (counts + 1) / 2 + 0.5) / len(lengths)
    signal = _normal_quantile(middle)[place]
    signal = (signal - signal.mean()) / signal.std()
    noise = rng.standard_normal(len(lengths))
    noise -= noise.mean()
    noise -= signal * (noise @ signal) / len(lengths)
    noise /= max(float(noise.std()), 1e-12)
    return lambda strength: strength * signal + math.sqrt(1 - strength * strength) * noise


def _outliers(
    lengths: npt.NDArray[np.float64], rng: np.random.Generator
) -> Callable[[float], npt.NDArray[np.float64]]:
    """Give a share of the requests the length of another as their score."""
    turn = rng.permutation(len(lengths))
    other = lengths[rng.permutation(len(lengths))]
    if np.ptp(other) > 0 and kendall_tau(other, lengths) > 0:
        # The other way round, by rank, so that a tau of 0 is reached before all have the score of another.
        place = np.empty(len(lengths), dtype=np.int64)
        place[np.argsort(other, kind="stable")] = np.arange(len(lengths))
        other = np.sort(lengths)[::-1][place]

    def make(strength: float) -> npt.NDArray[np.float64]:
        chosen = turn[: round((1 - strength) * len(lengths))]
        scores = lengths.copy()
        scores[chosen] = other[chosen]
        return scores

    return make


def _normal_quantile(share: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the standard normal distribution's quantiles, by the standard library's function."""
    from statistics import NormalDist

    quantile = NormalDist().inv_cdf
    return np.array([quantile(each) for each in share.tolist()])
