"""N-grams of a prompt, in blocks that are scaled apart.

The head of a prompt is its first paragraph, which is most often the task; the rest is most often what the
task is about. Blocks:

- the head's words, and pairs of neighbouring words;
- the rest's words and pairs;
- the head's first words with their place, and its first one to four words together;
- pairs of the head's words that are two or three places apart;
- runs of three to five characters within the head's words, so that forms of a word share columns.

A block of a row has the length that `SCALES` gives, whatever the number of its n-grams, so that a long text
does not outweigh a short task. The scales were chosen by cross-validation within the first 4,198 prompts of
Alpaca.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from paceline.rank.light.characters import character_grams
from paceline.rank.light.words import hashed_words, sections

__all__ = ["SCALES", "grams"]

SCALES: Final = np.array([1.0, 0.3, 0.5, 0.5, 0.4])
"""The length of a row in each block."""

_HEAD, _REST, _START, _APART, _CHARACTERS = range(len(SCALES))

_PLACES: Final = 5
_LONGEST_START: Final = 4
_DISTANCES: Final = (2, 3)

# Beyond this many words a head is hardly a task, and pairs that are apart say little.
_APART_WITHIN: Final = 40

_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(32)

_Hashes = npt.NDArray[np.uint64]
_Cells = npt.NDArray[np.int64]


class _Text:
    """Hashed words of one section of each prompt, with the row and place of each word."""

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        self.hashes, ends = hashed_words(texts)
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
        lengths = ends - starts
        self.row = np.repeat(np.arange(len(texts)), lengths)
        self.place = np.arange(len(self.hashes)) - starts[self.row]
        self.left = lengths[self.row] - self.place  # words from this one to the end

    def runs(
        self, kind: int, length: int, where: npt.NDArray[np.bool_] | None = None
    ) -> tuple[_Cells, _Hashes]:
        """Return row and hash of each run of words, of those that begin where it is said."""
        found = self.left >= length
        begins = np.flatnonzero(found if where is None else found & where)
        return self.row[begins], _mixed(kind, *(self.hashes[begins + offset] for offset in range(length)))


def grams(prompts: Sequence[str], bits: int) -> tuple[_Cells, _Cells]:
    """Return the cell and the column of each n-gram of prompts; repeated ones are there as often.

    Returns
    -------
    cells
        ``row * len(SCALES) + block``.
    columns
        Below ``2 ** bits``.
    """
    parts = [sections(prompt) for prompt in prompts]
    heads = [head or [""] for head, _ in parts]
    head, rest = _Text(heads), _Text([rest or [""] for _, rest in parts])
    made = [(_HEAD, *head.runs(1, 1)), (_HEAD, *head.runs(2, 2))]
    made += [(_REST, *rest.runs(3, 1)), (_REST, *rest.runs(4, 2))]
    early = np.flatnonzero(head.place < _PLACES)
    made.append((_START, head.row[early], _mixed(5, head.hashes[early], head.place[early].astype(np.uint64))))
    made += [
        (_START, *head.runs(5 + length, length, head.place == 0)) for length in range(1, _LONGEST_START + 1)
    ]
    for distance in _DISTANCES:
        first = np.flatnonzero((head.left > distance) & (head.place + distance < _APART_WITHIN))
        pair = _mixed(10 + distance, head.hashes[first], head.hashes[first + distance])
        made.append((_APART, head.row[first], pair))
    of_words, hashes = character_grams(heads)
    made.append((_CHARACTERS, head.row[of_words], _mixed(20, hashes)))
    cells = np.concatenate([row * len(SCALES) + block for block, row, _ in made])
    columns = np.concatenate([hashes for _, _, hashes in made]) * _MULTIPLIER >> np.uint64(64 - bits)
    return cells, columns.astype(np.int64)


def _mixed(kind: int, *parts: _Hashes) -> _Hashes:
    """Hash numbers together, in 64 bits that wrap; kinds of n-grams are hashed apart."""
    state = np.full(len(parts[0]), 0x11 * kind, dtype=np.uint64)
    for part in parts:
        state = (state ^ part) * _MULTIPLIER
        state ^= state >> _SHIFT
    return state
