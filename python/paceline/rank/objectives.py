"""What a ranker is trained for: pairs in order, lists in order, or lengths by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from paceline import _check
from paceline.errors import RankError
from paceline.rank.losses import Floats, l1, list_mle, margin_ranking
from paceline.rank.pairs import DELTA, PARTNERS, Pairs, draw_pairs

__all__ = ["Comparisons", "Examples", "Lists", "Listwise", "Objective", "Pairwise", "Points", "Pointwise"]

# ListMLE's lists in vllm-ltr are batches of 32 prompts.
_LIST_SIZE: Final = 32

# Each sample is in about as many lists.
_LISTS_A_SAMPLE: Final = 4


@dataclass(frozen=True, slots=True)
class Lists:
    """Lists of samples by position, a row each, the longest first."""

    members: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.members)

    def loss(self, scores: Floats) -> tuple[float, Floats]:
        """Return ListMLE's mean loss a position, and its gradient by the scores."""
        loss, gradient = list_mle(scores[self.members])
        size = self.members.shape[1]
        by_score = np.bincount(self.members.ravel(), weights=gradient.ravel(), minlength=len(scores))
        return loss / size, np.asarray(by_score / size, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Points:
    """Samples with the score that each is to have."""

    targets: Floats

    def __len__(self) -> int:
        return len(self.targets)

    def loss(self, scores: Floats) -> tuple[float, Floats]:
        """Return the mean absolute error, and its gradient by the scores."""
        return l1(scores, self.targets)


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Pairs of samples whose scores are to be a margin apart."""

    pairs: Pairs
    margin: float

    def __len__(self) -> int:
        return len(self.pairs)

    def loss(self, scores: Floats) -> tuple[float, Floats]:
        """Return the mean margin ranking loss, and its gradient by the scores."""
        first, second = self.pairs.first, self.pairs.second
        loss, by_first = margin_ranking(scores[first], scores[second], self.pairs.label, self.margin)
        at_first = np.bincount(first, weights=by_first, minlength=len(scores))
        at_second = np.bincount(second, weights=by_first, minlength=len(scores))
        return loss, np.asarray(at_first - at_second, dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairwise:
    """Pairs in order: the margin ranking loss (PARS).

    Parameters
    ----------
    delta
        Least relative difference of the lengths of a pair.
    partners
        Pairs a sample.
    margin
        The difference of scores that costs nothing.
    """

    name: ClassVar[str] = "pairwise"
    delta: float = DELTA
    partners: int = PARTNERS
    margin: float = 1.0

    def __post_init__(self) -> None:
        if not _check.is_number(self.delta) or not 0 <= self.delta < 1:
            raise RankError(f"delta must be a number from 0 to below 1, was {_check.said(self.delta)}")
        _check.count("partners", self.partners)
        _check.positive("margin", self.margin)

    def examples(self, lengths: Floats, groups: npt.NDArray[np.int64], seed: int) -> Comparisons:
        """Draw the pairs to train on."""
        pairs = draw_pairs(lengths, groups=groups, partners=self.partners, delta=self.delta, seed=seed)
        return Comparisons(pairs, float(self.margin))


@dataclass(frozen=True, slots=True, kw_only=True)
class Listwise:
    """Lists in order: ListMLE (vllm-ltr's loss).

    Parameters
    ----------
    list_size
        Samples of a list.
    """

    name: ClassVar[str] = "listwise"
    list_size: int = _LIST_SIZE

    def __post_init__(self) -> None:
        _check.count("list_size", self.list_size, least=2)

    def examples(self, lengths: Floats, groups: npt.NDArray[np.int64], seed: int) -> Lists:
        """Draw the lists to train on, each within a group; ties are in random order."""
        rng = np.random.default_rng(seed)
        parts = [np.flatnonzero(groups == group) for group in np.unique(groups)]
        size = min(self.list_size, max(len(part) for part in parts))
        lists = []
        for part in parts:
            # A group that is smaller than a list is in none.
            for _ in range(_LISTS_A_SAMPLE):
                shuffled = rng.permutation(part)[: len(part) // size * size].reshape(-1, size)
                lists.append(
                    np.take_along_axis(shuffled, np.argsort(-lengths[shuffled], axis=1, kind="stable"), 1)
                )
        return Lists(np.concatenate(lists))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointwise:
    """Lengths by themselves: the L1 loss.

    The target of a sample is the logarithm of its length, less the mean of its group and over their common
    standard deviation.
    """

    name: ClassVar[str] = "pointwise"

    def examples(self, lengths: Floats, groups: npt.NDArray[np.int64], seed: int) -> Points:
        """Return the targets; nothing is drawn."""
        targets = np.log(lengths)
        for group in np.unique(groups):
            targets[groups == group] -= targets[groups == group].mean()
        return Points(targets / targets.std())


Objective: TypeAlias = Pairwise | Listwise | Pointwise

Examples: TypeAlias = Comparisons | Lists | Points
