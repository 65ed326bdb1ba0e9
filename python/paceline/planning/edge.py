"""The search for the highest rate that passes, where the curve may cross the target several times.

It knows rates and whether they pass, and nothing of replays. A rate may be any amount of load: in whole
numbers, it is how many requests or sessions are in flight. Its rule:

    the edge is the lowest evaluated rate that fails; the answer is the highest evaluated rate below it.

So all evaluated rates up to the answer pass. The search evaluates, in this order:

1. a bracket: from the start, doublings until a rate fails, or halvings until one passes;
2. the inside of the bracket, four rates at equal distances at a time, down to the tolerance;
3. probes around the edge: 1, 2, 4 and 8 times the tolerance to each side, half the answer and twice the edge.

If a probe below the edge fails, the edge moves there, steps 2 and 3 are repeated, and the probes reach twice
as far. The reach bounds the repetitions by a logarithm. On a monotone curve step 3 changes nothing. Near the
target the attainment of neighbouring rates differs by noise, because other requests meet; there step 3 finds
rates that pass above the edge, and the answer errs to the low side.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from paceline.planning.asking import BATCH, Asked, Search

__all__ = ["Crossing", "Edge", "highest_passing"]

_OFFSETS = (1, 2, 4, 8)
"""Distances of the probes from the edge, in tolerances, for the first round of probes."""

_PROBES = 2 * len(_OFFSETS) + 2

Asking: TypeAlias = Search[float, bool, "Edge"]
_Rounding: TypeAlias = Callable[[float, float], float]
"""Rounds a rate, as a tolerance needs it."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """Two neighbouring evaluated rates, of which one passes and the other fails.

    Attributes
    ----------
    below, above
        The rates, in requests per second; or requests or sessions in flight, where these are searched.
    passes_above
        Whether it is the upper rate that passes; False: the lower.
    """

    below: float
    above: float
    passes_above: bool


@dataclass(frozen=True, slots=True)
class Edge:
    """What the search found.

    Attributes
    ----------
    passes
        The highest evaluated rate below which all evaluated rates pass; None: the lowest rate fails.
    fails
        The lowest evaluated rate that fails; None: no rate fails.
    seen
        Whether each evaluated rate passes, by rate, ascending.
    """

    passes: float | None
    fails: float | None
    seen: dict[float, bool]

    @property
    def crossings(self) -> tuple[Crossing, ...]:
        """Neighbouring evaluated rates with different outcomes, ascending."""
        rates = list(self.seen.items())
        return tuple(
            Crossing(below, above, passes_above=passes)
            for (below, passed), (above, passes) in itertools.pairwise(rates)
            if passed != passes
        )

    @property
    def monotone(self) -> bool:
        """Whether no evaluated rate passes above one that fails."""
        return not any(crossing.passes_above for crossing in self.crossings)


def highest_passing(
    start: float, lowest: float, highest: float, tolerance: float, *, whole: bool = False
) -> Asking:
    """Search for the highest rate that passes.

    Parameters
    ----------
    start
        The first rate to evaluate, from ``lowest`` to ``highest``.
    lowest, highest
        The limits of the search, above 0.
    tolerance
        The width of the last bracket, relative to its lower end.
    whole
        Whether rates are whole numbers, as the other arguments then are. The last bracket may then be of
        two neighbouring numbers.

    Yields
    ------
    Asked
        Rates, ascending, none twice.

    Returns
    -------
    Edge
        The edge, and all evaluated rates.
    """
    seen: dict[float, bool] = {}
    probed: tuple[float, float] | None = None
    reach = 1
    rounded = _to_whole if whole else _few_digits
    while True:
        fails = min((rate for rate, passes in seen.items() if not passes), default=None)
        passes = max((rate for rate in seen if fails is None or rate < fails), default=None)
        after = _likely(passes, fails, tolerance)
        if not seen:
            batch = _ladder(start, highest, 2.0, first=True)
        elif fails is None:
            assert passes is not None
            batch = _ladder(passes, highest, 2.0)
        elif passes is None:
            batch = [rounded(rate, tolerance) if whole else rate for rate in _ladder(fails, lowest, 0.5)]
        elif fails > passes * (1 + tolerance) and (inside := _inside(passes, fails, tolerance, rounded)):
            batch = inside
        elif probed == (passes, fails):
            batch = []
        else:
            probed = (passes, fails)
            batch = _probes((passes, fails), tolerance * reach, (lowest, highest), rounded)
            reach, after = 2 * reach, 0
        wanted = tuple(sorted({rate for rate in batch if rate not in seen}))
        if not wanted:
            return Edge(passes, fails, dict(sorted(seen.items())))
        seen.update(zip(wanted, (yield Asked(wanted, after)), strict=True))


def _ladder(rate: float, limit: float, factor: float, *, first: bool = False) -> list[float]:
    """Return the next rates of a geometric ladder up to a limit, and that limit itself; none beyond it."""
    rates = [rate] if first else []
    while rate != limit and len(rates) < BATCH:
        rate = min(rate * factor, limit) if factor > 1 else max(rate * factor, limit)
        rates.append(rate)
    return rates


def _inside(below: float, above: float, tolerance: float, rounded: _Rounding) -> list[float]:
    """Return rates between two others, at equal distances, rounded."""
    # Sums and products only: these are the same on every machine, powers are not.
    rates = [rounded(below + (above - below) * i / (BATCH + 1), tolerance) for i in range(1, BATCH + 1)]
    return [rate for rate in rates if below < rate < above]


def _probes(
    edge: tuple[float, float], step: float, limits: tuple[float, float], rounded: _Rounding
) -> list[float]:
    below, above = edge
    under = [below / (1 + step * k) for k in _OFFSETS] + [below / 2]
    over = [above * (1 + step * k) for k in _OFFSETS] + [above * 2]
    lowest, highest = limits
    return [rate for rate in (rounded(rate, step) for rate in under + over) if lowest <= rate <= highest]


def _to_whole(rate: float, tolerance: float) -> float:
    """Round a rate to a whole number."""
    return float(round(rate))


def _few_digits(rate: float, tolerance: float) -> float:
    """Round a rate to as many digits as the tolerance needs, so that a printed rate can be replayed."""
    return float(f"{rate:.{max(3, 2 - math.floor(math.log10(tolerance)))}g}")


def _likely(below: float | None, above: float | None, tolerance: float) -> int:
    """Return how many rates are likely to follow the next batch, one of the bracket or inside it."""
    bracketed = below is not None and above is not None
    width = above / below - 1 if bracketed else 1.0  # type: ignore[operator]  # both are numbers
    rounds = math.ceil(math.log(max(width / tolerance, 1.0), BATCH + 1))
    return BATCH * max(0, rounds - bracketed) + _PROBES
