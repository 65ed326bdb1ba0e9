"""Batches of an epoch: which prompts are encoded together, and what their scores are to satisfy.

An encoder's pass over a prompt costs much more than a comparison. By default partners are therefore drawn
among the prompts of a batch, which are others in every epoch: each prompt is encoded once an epoch and still
has as many partners as wanted. ``partners_within="all"`` draws partners among all samples once, as the
authors' code does, and encodes each prompt about as often as it is in a pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from paceline.errors import RankError
from paceline.rank.backend import Training
from paceline.rank.objectives import Comparisons, Examples, Lists, Listwise, Pairwise, Points, Pointwise
from paceline.rank.pairs import Pairs

__all__ = ["Batch", "Within", "batches"]

Within: TypeAlias = Literal["batch", "all"]


@dataclass(frozen=True, slots=True)
class Batch:
    """Prompts that are encoded together.

    Attributes
    ----------
    members
        Positions of the prompts among the samples.
    examples
        What their scores are to satisfy, by position in ``members``.
    """

    members: npt.NDArray[np.int64]
    examples: Examples


def batches(training: Training, *, size: int, within: Within, epoch: int) -> Iterator[Batch]:
    """Yield the batches of an epoch, the same for the same seed and epoch.

    Parameters
    ----------
    training
        The samples.
    size
        Prompts of a batch; pairs of a batch where partners are drawn among all samples.
    within
        Where partners are drawn.
    epoch
        Counted from 0.
    """
    rng = np.random.default_rng((training.seed, epoch))
    objective = training.objective
    if isinstance(objective, Pairwise) and within == "all":
        yield from _pairs(training, objective, size, rng)
        return
    targets = None
    if isinstance(objective, Pointwise):
        targets = objective.examples(training.lengths, training.groups, training.seed).targets
    for members in _chunks(training.groups, size, rng):
        lengths = training.lengths[members]
        if targets is not None:
            yield Batch(members, Points(targets[members]))
        elif isinstance(objective, Pairwise):
            try:
                examples = objective.examples(lengths, np.zeros_like(members), int(rng.integers(2**31)))
            except RankError:  # all are of nearly one length
                continue
            yield Batch(members, examples)
        elif isinstance(objective, Listwise):
            lists = _lists(lengths, objective.list_size)
            if lists is not None:
                yield Batch(members, lists)


def _chunks(
    groups: npt.NDArray[np.int64], size: int, rng: np.random.Generator
) -> list[npt.NDArray[np.int64]]:
    """Split each group at random into nearly equal parts, and shuffle the parts."""
    parts: list[npt.NDArray[np.int64]] = []
    for group in np.unique(groups):
        members = rng.permutation(np.flatnonzero(groups == group))
        parts.extend(np.array_split(members, max(1, round(len(members) / size))))
    return [parts[position] for position in rng.permutation(len(parts))]


def _lists(lengths: npt.NDArray[np.float64], size: int) -> Lists | None:
    """Cut a batch, which is in random order, into lists; a rest that is shorter is in none."""
    size = min(size, len(lengths))
    if size < 2:
        return None
    members = np.arange(len(lengths) // size * size).reshape(-1, size)
    order = np.argsort(-lengths[members], axis=1, kind="stable")
    return Lists(np.take_along_axis(members, order, axis=1))


def _pairs(training: Training, objective: Pairwise, size: int, rng: np.random.Generator) -> Iterator[Batch]:
    drawn = objective.examples(training.lengths, training.groups, training.seed)
    order = rng.permutation(len(drawn))
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        first, second = drawn.pairs.first[chosen], drawn.pairs.second[chosen]
        members, local = np.unique(np.concatenate([first, second]), return_inverse=True)
        pairs = Pairs(local[: len(chosen)], local[len(chosen) :], drawn.pairs.label[chosen])
        yield Batch(members, Comparisons(pairs, drawn.margin))
