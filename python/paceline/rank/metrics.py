"""Kendall's tau-b between scores and lengths, with a bootstrap interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from paceline import _check
from paceline._arguments import typed
from paceline.errors import RankError
from paceline.rank.checks import checked_groups, checked_resamples, numbered, numbers

__all__ = ["RESAMPLES", "Tau", "kendall_tau", "tau_by", "tau_with_interval"]

RESAMPLES: Final = 1_000

_LEVEL: Final = 0.95


@dataclass(frozen=True, slots=True)
class Tau:
    """Kendall's tau-b of a sample with an interval.

    Attributes
    ----------
    value
        Of the sample.
    low, high
        The percentiles of resamples of prompts that hold 95% between them.
    samples
        The number of samples.
    """

    value: float
    low: float
    high: float
    samples: int

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f}, n = {self.samples:,})"


def kendall_tau(scores: npt.ArrayLike, lengths: npt.ArrayLike) -> float:
    """Return Kendall's tau-b, in n log n time.

    It is (concordant - discordant) / sqrt((pairs - ties of the scores) * (pairs - ties of the lengths)).

    Raises
    ------
    RankError
        There are fewer than two samples, a row is NaN or no number, the numbers of scores and lengths differ,
        or all scores or all lengths are equal.

    Examples
    --------
    >>> round(kendall_tau([1, 2, 3, 4], [10, 20, 40, 30]), 6)
    0.666667
    """
    one, other = _checked(scores, lengths)
    return float(_tau(one[None], other[None])[0])


def tau_with_interval(
    scores: npt.ArrayLike,
    lengths: npt.ArrayLike,
    *,
    groups: Sequence[object] | npt.NDArray[Any] | None = None,
    clusters: Sequence[object] | npt.NDArray[Any] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Tau:
    """Return Kendall's tau-b with its 95% percentile bootstrap interval.

    Resamples repeat samples; pairs of a sample with itself are ties in both, and count in neither part of
    tau-b.

    Parameters
    ----------
    scores, lengths
        One of each a sample.
    groups
        Samples are compared within a group only, and the mean of the groups' taus, weighted by their samples,
        is returned. None: all are one group.
    clusters
        Samples of one cluster are drawn together, such as the answers of several models to one prompt. None:
        each sample is one.
    resamples
        How many are drawn.
    seed
        The same seed draws the same resamples.

    Raises
    ------
    RankError
        As `kendall_tau`, or there are more or fewer groups or clusters than samples.

    Examples
    --------
    >>> round(tau_with_interval(range(50), range(50)).low, 6)
    1.0
    """
    one, other = _checked(scores, lengths)
    samples = len(one)
    checked_resamples(resamples)
    _check.count("seed", seed, least=0, error=RankError)
    parts = checked_groups(groups, samples)
    rng = np.random.default_rng(seed)
    if groups is None and clusters is None:
        value = float(_tau(one[None], other[None])[0])
        # Some at once, as small arrays cost more in calls than in work.
        rows = max(1, 2**18 // samples)
        draws = (
            rng.integers(samples, size=(min(rows, resamples - start), samples))
            for start in range(0, resamples, rows)
        )
        values = np.concatenate([_tau(one[drawn], other[drawn]) for drawn in draws])
    else:
        value = _mean_tau(one, other, parts)
        names = np.arange(samples) if clusters is None else numbered("clusters", clusters, samples)
        members = np.split(np.argsort(names, kind="stable"), np.cumsum(np.bincount(names))[:-1])
        values = np.empty(resamples)
        for position in range(resamples):
            chosen = rng.integers(len(members), size=len(members))
            drawn = np.concatenate([members[each] for each in chosen])
            values[position] = _mean_tau(one[drawn], other[drawn], parts[drawn])
    # A resample of equal values only has no tau.
    low, high = np.nanquantile(values, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Tau(value, float(low), float(high), samples)


def _mean_tau(
    one: npt.NDArray[np.int64], other: npt.NDArray[np.int64], parts: npt.NDArray[np.int64]
) -> float:
    """Return the mean of the parts' taus, weighted by samples; parts without a tau are left out."""
    total, weight = 0.0, 0
    for part in np.unique(parts):
        rows = parts == part
        tau = _tau(one[None, rows], other[None, rows])[0]
        if np.isfinite(tau):
            total, weight = total + float(tau) * int(rows.sum()), weight + int(rows.sum())
    return total / weight if weight else float("nan")


@typed(RankError)
def tau_by(
    frame: pl.DataFrame, by: tuple[str, ...], *, resamples: int = RESAMPLES, seed: int = 0
) -> pl.DataFrame:
    """Return tau-b with its interval for each group of rows.

    Parameters
    ----------
    frame
        With the columns ``score`` and ``output_tokens``, and those of ``by``.
    by
        Columns whose values name the groups, such as ``("dataset", "model")``.
    resamples, seed
        As `tau_with_interval`.

    Returns
    -------
    polars.DataFrame
        The columns of ``by``, ``samples``, ``tau``, ``low`` and ``high``. Of a group with fewer than two
        samples, or whose lengths or scores are all equal, the last three are null.

    Raises
    ------
    RankError
        A column is missing, or a score or a length is not a number; the message names its row.
    """
    if not by:
        raise RankError("by must name at least one column, such as ('model',), was ()")
    for name in ("score", "output_tokens", *by):
        if name not in frame.columns:
            raise RankError(f"frame must have the column {name}, has {', '.join(frame.columns)}")
    for name in ("score", "output_tokens"):
        numbers(name, frame.get_column(name), "a number")
    checked_resamples(resamples)
    _check.count("seed", seed, least=0, error=RankError)
    rows = []
    for names, part in frame.group_by(*dict.fromkeys(by), maintain_order=True):
        entry: dict[str, object] = dict(zip(dict.fromkeys(by), names, strict=True))
        entry["samples"] = part.height
        try:
            tau = tau_with_interval(
                part.get_column("score").to_numpy(),
                part.get_column("output_tokens").to_numpy(),
                resamples=resamples,
                seed=seed,
            )
            entry.update(tau=tau.value, low=tau.low, high=tau.high)
        except RankError:
            entry.update(tau=None, low=None, high=None)
        rows.append(entry)
    figures = {"samples": pl.Int64, "tau": pl.Float64, "low": pl.Float64, "high": pl.Float64}
    return pl.DataFrame(rows, schema_overrides=figures)


def _checked(
    scores: npt.ArrayLike, lengths: npt.ArrayLike
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the dense ranks of both."""
    ranks = []
    one, other = numbers("scores", scores, "a number"), numbers("lengths", lengths, "a number")
    if len(one) != len(other):
        raise RankError(f"scores and lengths must be of one number, was {len(one)} and {len(other)}")
    if len(one) < 2:
        raise RankError(f"Kendall's tau needs at least 2 samples, was {len(one)}")
    for name, values in (("scores", one), ("lengths", other)):
        distinct, rank = np.unique(values, return_inverse=True)
        if len(distinct) < 2:
            raise RankError(
                f"{name} must not all be equal, or no order can be compared; all were {values[0]:g}"
            )
        ranks.append(rank.astype(np.int64))
    return ranks[0], ranks[1]


def _tau(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return tau-b of each row of ranks; NaN where all ranks of a row are equal."""
    samples = one.shape[1]
    pairs = samples * (samples - 1) // 2
    span = int(other.max()) + 1
    both = one * span + other
    order = np.argsort(both, axis=1, kind="stable")
    arranged = np.take_along_axis(other, order, axis=1)
    ties_one, ties_other = _ties(one), _ties(other)
    discordant = _inversions(arranged)
    # Pairs that tie in either are neither concordant nor discordant.
    concordant = pairs - ties_one - ties_other + _ties(both) - discordant
    scale = np.sqrt((pairs - ties_one).astype(np.float64)) * np.sqrt((pairs - ties_other).astype(np.float64))
    with np.errstate(invalid="ignore"):
        return np.asarray((concordant - discordant) / scale)


def _ties(ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return for each row the number of pairs of equal values."""
    ordered = np.sort(ranks, axis=1)
    position = np.arange(ordered.shape[1])
    starts = np.ones(ordered.shape, dtype=bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    # Each value pairs with the equal ones before it.
    first = np.maximum.accumulate(np.where(starts, position, 0), axis=1)
    return np.asarray((position - first).sum(axis=1))


def _inversions(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return for each row the number of pairs whose first value is greater than the second.

    Blocks are merged bottom up. In a merged pair of blocks that is sorted, with equal values of the left
    block first, a value of the right block is passed by the values of the left block behind it.
    """
    rows, samples = values.shape
    total = np.zeros(rows, dtype=np.int64)
    span = int(values.max()) + 1
    position = np.arange(samples)
    width = 1
    current = values
    while width < samples:
        block = position // (2 * width)
        right = (position // width) % 2 == 1
        order = np.argsort(current + block * span, axis=1, kind="stable")
        from_right = right[order]
        left_so_far = np.cumsum(~from_right, axis=1)
        lefts_to_end = np.cumsum(np.bincount(block, weights=~right)).astype(np.int64)[block]
        total += np.where(from_right, lefts_to_end - left_so_far, 0).sum(axis=1)
        current = np.take_along_axis(current, order, axis=1)
        width *= 2
    return total
