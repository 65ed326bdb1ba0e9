"""Cases of a search: some drawn anew, others near earlier ones whose replays did what few did."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection
from pathlib import Path

from search.case import Case
from search.draw.source import Source
from search.near import near
from search.pairs import Pairs

FOUND = Path(__file__).parent / "found"
NEAR = 0.6
"""The share of cases that are near others."""
NEAR_FOUND = 0.15
"""The share of these that are near cases which once failed."""
KEPT = 8
"""The latest cases that are kept for each mechanism."""


class Drawing:
    """Draws the cases of a search, one after another.

    A case near another depends on the cases before it, so that its number does not say it: it is kept.

    Parameters
    ----------
    seed
        Another seed draws other cases.
    """

    def __init__(self, seed: int) -> None:
        self._seed, self._pairs = seed, Pairs(seed)
        paths = sorted(FOUND.glob("*.json"))
        # A case that is refused has no meaning, nor do most of those near it.
        texts = [path.read_bytes() for path in paths if not path.stem.startswith("refused")]
        self._found = [Case.from_json(text) for text in texts]
        self._counts = Counter[str]()
        self._cases: dict[str, deque[Case]] = defaultdict(lambda: deque(maxlen=KEPT))

    def draw(self, number: int) -> Case:
        """Return the next case, and draw it from a source of this number."""
        source = Source(f"{self._seed}:{number}: near")
        if not source.chance(NEAR):
            return self._pairs.draw(number)
        return near(self._parent(source), self._parent(source), source)

    def note(self, case: Case, exercised: Collection[str]) -> None:
        """Keep a case for the mechanisms that had an effect in its replay."""
        for mechanism in exercised:
            self._counts[mechanism] += 1
            self._cases[mechanism].append(case)

    def _parent(self, source: Source) -> Case:
        if not self._counts or source.chance(NEAR_FOUND):
            return source.pick(self._found)
        names = sorted(self._counts, key=lambda name: (self._counts[name], name))
        rare = names[: (len(names) + 1) // 2]
        return source.pick(self._cases[source.pick(rare)])
