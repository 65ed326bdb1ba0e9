"""Further draws of cases that have the mechanisms of those that reach a mutant.

A rule that few configurations have is reached by few drawn cases, of which fewer still notice a change to it.
To draw a case takes a fraction of a millisecond: of many, those are replayed that have what sets the cases
apart that reach a mutant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set

from mutation.cases import MORE, Checked, Further
from search.case import draw

DRAWS = 30_000
EACH = 120
"""Further draws, and how many of them are replayed for the mutants of which the mechanisms are the same."""
MOST = 4
"""Mechanisms that a draw must have."""
SHARED = 0.9
COMMON = 0.5
LEAST = 5
"""What sets cases apart: nearly all of them have it, and at most this share of those with the rest; but
not so few that no further draw has both."""


def wanted(reaching: Iterable[Sequence[Checked]], drawn: Sequence[Checked]) -> set[frozenset[str]]:
    """Return the sets of mechanisms that set the cases apart which reach a mutant each."""
    several = {tuple(one.name for one in cases): cases for cases in reaching}
    others = [one.mechanisms for one in drawn]
    return {apart([one.mechanisms for one in cases], others) for cases in several.values()} - {frozenset()}


def apart(several: Sequence[Set[str]], others: Sequence[Set[str]]) -> frozenset[str]:
    """Return the mechanisms that set cases apart from others; both are given by their mechanisms."""
    has = Counter(one for each in several for one in each)
    shared = sorted(one for one, count in has.items() if count >= SHARED * len(several))
    found: frozenset[str] = frozenset()
    while len(found) < MOST:
        counts = Counter(one for each in others for one in each)
        few = [one for one in shared if LEAST <= counts[one] <= COMMON * len(others)]
        if not few:
            break
        rarest = min(few, key=lambda one: counts[one])
        found |= {rarest}
        others = [each for each in others if rarest in each]
    return found


def drawn(seed: int, count: int, wanted: Set[frozenset[str]]) -> Iterator[Further]:
    """Yield draws that follow those of `cases.drawn`, with all mechanisms of one of these sets."""
    missing = Counter(dict.fromkeys(wanted, EACH))
    first = count * (1 + MORE)
    for number in range(first, first + DRAWS):
        if not missing:
            break
        known = Further(f"case {seed}:{number}", draw(seed, number), number)
        several = [one for one in missing if one <= known.mechanisms]
        missing -= Counter(several)
        if several:
            yield known
