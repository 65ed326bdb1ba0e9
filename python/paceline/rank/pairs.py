"""Pairs of samples to train on: partners drawn at random, pairs of nearly the same length left out.

As in the authors' code: for each sample, partners are drawn uniformly with replacement until it has as many
as wanted, at most ten draws for each. A pair is kept if its lengths differ by at least ``delta`` of the
longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from paceline import _check
from paceline.errors import RankError
from paceline.rank.checks import checked_groups, numbers

__all__ = ["DELTA", "PARTNERS", "Pairs", "draw_pairs", "far_apart"]

DELTA: Final = 0.2
"""PARS's least relative difference for Llama 3.1 and GPT-4; 0.25 for DeepSeek R1 (section III.A)."""

PARTNERS: Final = 10
"""Partners a sample in the authors' code."""

_DRAWS: Final = 10

_MOST_PARTNERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of samples, by position.

    Attributes
    ----------
    first, second
        The two samples of each pair.
    label
        1 where the first is longer, -1 where the second is.
    """

    first: npt.NDArray[np.int64]
    second: npt.NDArray[np.int64]
    label: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.first)


def far_apart(first: npt.ArrayLike, second: npt.ArrayLike, delta: float) -> npt.NDArray[np.bool_]:
    """Whether lengths differ, and by at least ``delta`` of the longer (equation 1 of PARS).

    Examples
    --------
    >>> far_apart([100, 100, 100], [80, 81, 100], 0.2).tolist()
    [True, False, False]
    """
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    apart = np.abs(one - other)
    return np.asarray((apart > 0) & (apart / np.maximum(np.maximum(one, other), 1e-300) >= delta))


def draw_pairs(
    lengths: npt.ArrayLike,
    *,
    groups: Sequence[object] | npt.NDArray[Any] | None = None,
    partners: int = PARTNERS,
    delta: float = DELTA,
    seed: int = 0,
) -> Pairs:
    """Draw partners for every sample.

    Parameters
    ----------
    lengths
        Length of each sample's answer.
    groups
        Samples are paired within a group only, such as the answers of one model. None: all are one group.
    partners
        Pairs that each sample gets as their first, at most 10,000; fewer where few others are far enough
        from it.
    delta
        Least relative difference of the lengths of a pair; 0 keeps all pairs of unequal lengths.
    seed
        The same seed draws the same pairs.

    Raises
    ------
    RankError
        No pair is far enough apart, or an argument is not usable; the message names its row.

    Examples
    --------
    >>> pairs = draw_pairs([10, 100], partners=1)
    >>> sorted(zip(pairs.first.tolist(), pairs.second.tolist(), pairs.label.tolist()))
    [(0, 1, -1), (1, 0, 1)]
    """
    if not _check.is_number(delta) or not 0 <= delta < 1:
        raise RankError(f"delta must be a number from 0 to below 1, was {_check.said(delta)}")
    _check.count("partners", partners, most=_MOST_PARTNERS, error=RankError)
    _check.count("seed", seed, least=0, error=RankError)
    values = numbers("lengths", lengths)
    names = checked_groups(groups, len(values))
    rng = np.random.default_rng(seed)
    found: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
    for name in range(int(names.max(initial=-1)) + 1):
        members = np.flatnonzero(names == name)
        found.extend(_partners(members, values[members], partners, delta, rng))
    first = np.concatenate([one for one, _ in found]) if found else np.empty(0, dtype=np.int64)
    if not len(first):
        raise RankError(
            f"lengths must have a pair that differs by at least {delta:g} of the longer, was "
            f"{len(values)} sample(s) from {values.min(initial=np.inf):g} to {values.max(initial=-np.inf):g}"
        )
    second = np.concatenate([other for _, other in found])
    # By first sample, so that the pairs do not depend on the number of draws that they took.
    order = np.argsort(first, kind="stable")
    first, second = first[order], second[order]
    return Pairs(first, second, np.where(values[first] > values[second], 1, -1).astype(np.int8))


def _partners(
    members: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.float64],
    partners: int,
    delta: float,
    rng: np.random.Generator,
) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Draw for all members at once, and again for those that are short of partners."""
    wanting = np.full(len(members), partners)
    drawn = []
    for _ in range(_DRAWS):
        one = np.repeat(np.arange(len(members)), wanting)
        if not len(one):
            break
        other = rng.integers(len(members), size=len(one))
        kept = far_apart(lengths[one], lengths[other], delta)
        drawn.append((members[one[kept]], members[other[kept]]))
        wanting -= np.bincount(one[kept], minlength=len(members))
    return drawn
