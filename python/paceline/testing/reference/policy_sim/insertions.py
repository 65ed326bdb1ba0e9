"""How often requests have inserted chunks into the prefix cache, and which contents the GPU has lost.

Follows SGLang 0.5.23 (``srt/mem_cache/unified_radix_cache.py`` and ``unified_cache/unified_tree_core.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from paceline.testing.reference.blocks import BlockPool

INSERTIONS = {"through": 1, "selective": 2}
"""Insertions of a chunk before it is stored, by the rule of writing."""


class Insertions:
    """The insertions of the chunks that the GPU has.

    Parameters
    ----------
    write : str
        The rule of writing.
    pool : BlockPool
        The blocks of the GPU.
    """

    def __init__(self, write: str, pool: BlockPool) -> None:
        self.counts = write in INSERTIONS
        self._least, self._back, self._pool = INSERTIONS.get(write, 0), write == "back", pool
        self._times: Counter[Hashable] = Counter()
        self._lost: list[Hashable] = []
        pool.lost = []

    def lose(self) -> None:
        """Forget the insertions of the contents that the GPU has lost since the last call."""
        lost, self._pool.lost = self._pool.lost or [], []
        for key in lost:
            del self._times[key]
        self._lost += lost if self._back else []

    def take_lost(self) -> list[Hashable]:
        """Return the contents that are to be stored as the GPU has lost them, once."""
        lost, self._lost = self._lost, []
        return lost

    def insert(self, keys: list[Hashable]) -> list[Hashable]:
        """Insert consecutive chunks; return those up to the last that was inserted often enough."""
        self._times.update(keys)
        enough = [at for at, key in enumerate(keys) if self._times[key] >= self._least]
        return keys[: max(enough, default=-1) + 1]
