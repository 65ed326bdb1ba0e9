"""Checks of what rankers are given; a message names the row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from paceline._check import said
from paceline.errors import RankError

__all__ = ["checked_groups", "checked_lengths", "checked_prompts"]


def checked_prompts(prompts: Sequence[object]) -> list[str]:
    """Return the prompts as a list, or refuse the first that is empty or no text."""
    if isinstance(prompts, str):
        raise RankError(f"prompts must be a list of texts, was one text, {said(prompts)}")
    texts = []
    for row, text in enumerate(prompts):
        if not isinstance(text, str) or not text.strip():
            raise RankError(f"prompts, row {row}: must be a text that is not empty, was {said(text)}")
        texts.append(text)
    return texts


def checked_lengths(lengths: npt.ArrayLike, samples: int) -> npt.NDArray[np.float64]:
    """Return the lengths as numbers, or refuse the first that is not finite and above 0."""
    try:
        values = np.array(lengths, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise RankError(f"lengths must be numbers: {error}") from error
    if values.shape != (samples,):
        raise RankError(f"lengths must be one for each of {samples} prompts, was of shape {values.shape}")
    bad = ~(np.isfinite(values) & (values > 0))
    if bad.any():
        row = int(bad.argmax())
        raise RankError(f"lengths, row {row}: must be a finite number above 0, was {values[row]:g}")
    return values


def checked_groups(groups: Sequence[object] | npt.NDArray[Any] | None, samples: int) -> npt.NDArray[np.int64]:
    """Return a number for the group of each sample."""
    if groups is None:
        return np.zeros(samples, dtype=np.int64)
    names = [str(group) for group in groups]
    if len(names) != samples:
        raise RankError(f"groups must be one for each of {samples} prompts, was {len(names)}")
    return np.unique(np.array(names), return_inverse=True)[1].astype(np.int64)
