"""The spread of latencies that do not fit into memory, the same to the last bit as that of a whole column.

A column is read three times: as its parts are written, and twice after. Each time takes memory for a part,
and for a table of counts. Quantiles are exact: the bits of numbers that are not negative are in their order,
so the number of a rank is found by counting first bits, and then the next ones among those that begin so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from paceline.result.summary import QUANTILES, Row, spread_of

__all__ = ["Spreading", "pairwise_sum"]

_LOW: Final = 22
"""Bits that are counted in each of the last two passes."""
_FIRST: Final = 64 - 2 * _LOW
_MASK: Final = np.uint64(2**_LOW - 1)

_PIECE: Final = 1 << 16

_SMALL: Final = 1 << 22
"""Values that are read at once."""

Floats = NDArray[np.float64]


class Spreading:
    """The figures of one column, of which parts are added in order; then it is read twice more."""

    def __init__(self) -> None:
        self._count, self._least, self._most = 0, np.inf, -np.inf
        self._tops = np.zeros(2**_FIRST, dtype=np.int64)

    def add(self, column: pl.Series) -> None:
        """Add a part of the column."""
        values = _values(column)
        if values.size:
            self._count += values.size
            self._least, self._most = (
                min(self._least, float(values.min())),
                max(self._most, float(values.max())),
            )
            tops = (values.view(np.uint64) >> np.uint64(2 * _LOW)).astype(np.int64)
            self._tops += np.bincount(tops, minlength=2**_FIRST)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what is known of the parts so far, by name."""
        return {
            "tops": self._tops,
            "bounds": np.array([self._least, self._most]),
            "count": np.array(self._count),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a state."""
        self._tops, self._count = state["tops"], int(state["count"])
        self._least, self._most = map(float, state["bounds"])

    def figures(self, read: Callable[[], Iterator[pl.Series]]) -> Row:
        """Return what `spread_of` returns of the column, whose parts `read` gives in order."""
        count = self._count
        if count <= _SMALL:
            return spread_of(pl.concat(list(read())))
        ranks = {name: (count - 1) * share for name, share in QUANTILES.items()}
        found = _Ranks({int(rank) + more for rank in ranks.values() for more in (0, 1)} - {count}, self._tops)
        total = pairwise_sum(_Taken(found.counted(map(_values, read()))), count)
        mean = np.float64(total) / count
        found.narrow()
        squares = ((values - mean) ** 2 for values in found.counted(map(_values, read())))
        variance = np.float64(pairwise_sum(_Taken(squares), count)) / count
        found.narrow()
        return {
            "mean": float(mean),
            "std": float(np.sqrt(variance)),
            "min": self._least,
            **{name: found.between(rank) for name, rank in ranks.items()},
            "max": self._most,
            "count": count,
        }


def _values(column: pl.Series) -> Floats:
    """Return the values of a column without nulls."""
    return column.drop_nulls().to_numpy()


class _Ranks:
    """The numbers of some ranks, of which more bits are known after each pass."""

    def __init__(self, ranks: set[int], tops: NDArray[np.int64]) -> None:
        ends = np.cumsum(tops)
        self._shift = 2 * _LOW
        # By rank: the first bits of its number, and its rank among the numbers that begin so.
        self._known = {rank: _place(ends, rank) for rank in ranks}
        self._count()

    def _count(self) -> None:
        self._counts = {
            top: np.zeros(2**_LOW, dtype=np.int32) for top in {top for top, _ in self._known.values()}
        }

    def counted(self, parts: Iterable[Floats]) -> Iterator[Floats]:
        """Count the next bits of the numbers that begin as wanted, and give the parts on."""
        shift, low = np.uint64(self._shift), np.uint64(self._shift - _LOW)
        for values in parts:
            bits = values.view(np.uint64)
            tops = bits >> shift
            for top, counts in self._counts.items():
                lows, often = np.unique((bits[tops == np.uint64(top)] >> low) & _MASK, return_counts=True)
                counts[lows.astype(np.int64)] += often.astype(np.int32)
            yield values

    def narrow(self) -> None:
        """Take the bits that were counted for known."""
        found = {top: np.flatnonzero(counts) for top, counts in self._counts.items()}
        ends = {top: np.cumsum(self._counts[top][lows], dtype=np.int64) for top, lows in found.items()}
        places = {rank: (top, *_place(ends[top], within)) for rank, (top, within) in self._known.items()}
        places = {rank: (top, int(found[top][at]), within) for rank, (top, at, within) in places.items()}
        self._known = {rank: (top << _LOW | low, within) for rank, (top, low, within) in places.items()}
        self._shift -= _LOW
        self._counts = {}
        if self._shift:
            self._count()

    def between(self, rank: float) -> float:
        """Return the number at a rank, or that between the two next to it, as numpy does."""
        low = int(rank)
        tops = [self._known.get(each, self._known[low])[0] for each in (low, low + 1)]
        return float(np.quantile(np.array(tops, dtype=np.uint64).view(np.float64), rank - low))


def _place(ends: NDArray[np.int64], rank: int) -> tuple[int, int]:
    """Return the bin of a rank, and its rank in it."""
    place = int(np.searchsorted(ends, rank, side="right"))
    return place, rank - (int(ends[place - 1]) if place else 0)


class _Taken:
    """Takes so many numbers at a time from parts."""

    def __init__(self, parts: Iterator[Floats]) -> None:
        self._parts, self._part, self._at = parts, np.empty(0), 0

    def __call__(self, count: int) -> Floats:
        taken = []
        while count:
            if self._at == self._part.size:
                self._part, self._at = next(self._parts), 0
            taken.append(self._part[self._at : self._at + count])
            self._at += taken[-1].size
            count -= taken[-1].size
        return taken[0] if len(taken) == 1 else np.concatenate(taken or [np.empty(0)])


def pairwise_sum(take: Callable[[int], Floats], count: int) -> float:
    """Return numpy's sum of `count` numbers, which are taken in order, a few at a time.

    numpy adds halves of a column, and halves of these (``pairwise_sum_DOUBLE`` in
    ``numpy/_core/src/umath/loops_utils.h.src``), so that the sum of a column is the sum of those of the same
    halves.
    """
    if count <= _PIECE:
        return float(np.add.reduce(np.ascontiguousarray(take(count))))
    half = count // 2
    half -= half % 8
    first = pairwise_sum(take, half)
    return first + pairwise_sum(take, count - half)
