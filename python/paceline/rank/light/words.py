"""Words of prompts, and hashes of them that are the same on every machine.

A word is a run of letters, a run of digits, or one other character that is not a space. Letters are taken in
lower case, and a run of digits is the word ``0``, with its length: the particular number says little.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["MAX_WORDS", "hashed_words", "sections", "words"]

MAX_WORDS: Final = 256
"""Words of a prompt that count: three quarters of them from its start, and the rest from its end."""

_HEAD: Final = MAX_WORDS - MAX_WORDS // 4

# Longer prompts are cut before they are searched, so that one of megabytes takes no longer.
_MAX_CHARACTERS: Final = 16 * MAX_WORDS

_WORD: Final = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?|\d+|\n+|[^\w\s]|_")


def words(prompt: str) -> list[str]:
    """Return the words of a prompt that count.

    Examples
    --------
    >>> words("List 12 fruits.")
    ['list', '00', 'fruits', '.']
    """
    if len(prompt) > 2 * _MAX_CHARACTERS:
        prompt = f"{prompt[:_MAX_CHARACTERS]} {prompt[-_MAX_CHARACTERS:]}"
    found = _WORD.findall(prompt.lower())
    if len(found) > MAX_WORDS:
        found = found[:_HEAD] + found[-(MAX_WORDS - _HEAD) :]
    return ["0" * min(len(word), 4) if word.isdigit() else word for word in found]


def sections(prompt: str) -> tuple[list[str], list[str]]:
    r"""Return the words of a prompt's first paragraph, and those of the rest.

    Examples
    --------
    >>> sections("Sum up:\n\nBees fly.")
    (['sum', 'up', ':'], ['bees', 'fly', '.'])
    """
    head, _, rest = prompt.strip().partition("\n\n")
    return words(head), words(rest)


def hashed_words(texts: Sequence[Sequence[str]]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Hash words to 32 bits, all texts behind each other.

    Returns
    -------
    hashes
        CRC-32 of each word in UTF-8.
    ends
        For each text the number of hashes up to its end.
    """
    known: dict[str, int] = {}
    hashes: list[int] = []
    ends = np.empty(len(texts), dtype=np.int64)
    for position, text in enumerate(texts):
        for word in text:
            value = known.get(word)
            if value is None:
                value = known[word] = zlib.crc32(word.encode("utf-8", "surrogatepass"))
            hashes.append(value)
        ends[position] = len(hashes)
    return np.array(hashes, dtype=np.uint64), ends
