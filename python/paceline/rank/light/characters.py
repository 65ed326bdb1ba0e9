"""Runs of characters within words, hashed."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["character_grams"]

_LENGTHS: Final = (3, 4, 5)

# The start of a longer word tells it apart.
_MOST_CHARACTERS: Final = 24


def character_grams(
    texts: Sequence[Sequence[str]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Return the runs of three to five characters of all words, each word with a space at both ends.

    Returns
    -------
    words
        The word that each run is of, counted over all texts.
    hashes
        CRC-32 of each run in UTF-8.
    """
    known: dict[str, int] = {}
    order = [known.setdefault(word, len(known)) for text in texts for word in text]
    if not order:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64)
    runs = [_runs(word) for word in known]
    counts = np.array([len(each) for each in runs], dtype=np.int64)
    starts = np.cumsum(counts) - counts
    hashes = np.array([value for each in runs for value in each], dtype=np.uint64)
    kinds = np.array(order, dtype=np.int64)
    own = counts[kinds]
    words = np.repeat(np.arange(len(kinds)), own)
    within = np.arange(len(words)) - np.repeat(np.cumsum(own) - own, own)
    return words, hashes[starts[kinds][words] + within]


def _runs(word: str) -> list[int]:
    """Return the hashes of a word's runs; none of a single character, such as a sign."""
    if len(word) < 2:
        return []
    padded = f" {word[:_MOST_CHARACTERS]} "
    return [
        zlib.crc32(padded[start : start + length].encode("utf-8", "surrogatepass"))
        for length in _LENGTHS
        for start in range(len(padded) - length + 1)
    ]
