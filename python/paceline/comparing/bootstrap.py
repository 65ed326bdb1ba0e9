"""Intervals from one trace: a bootstrap over blocks of consecutive requests.

Latencies of requests that arrive one after another depend on each other, because they share queues. Drawing
single requests would treat them as independent, and give intervals that are too narrow. So the requests, in
order of arrival, are divided into blocks, and whole blocks are drawn with replacement, as many as there
are. A draw takes the same blocks for every policy, so that differences are of the same requests.

A draw is a number for each block: how many times it is in. Figures of a draw follow from sums over the
blocks, so requests are never copied.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Draws", "interval"]

Floats = NDArray[np.float64]

_GRID: Final = 512
"""The most ranks at which the distribution of a draw is evaluated; between them it is a line."""

_REACH: Final = 8.0
"""Half the width of the window, in standard deviations of the rank of the quantile."""


@dataclass(frozen=True, slots=True)
class Draws:
    """Draws of blocks.

    Attributes
    ----------
    counts
        How many times each block is in each draw: a row a draw.
    block
        The block of each request.
    """

    counts: Floats
    block: NDArray[np.int64]

    @classmethod
    def of(cls, requests: int, *, blocks: int, draws: int, seed: int) -> Draws:
        """Divide requests into blocks of nearly equal numbers, and draw.

        Parameters
        ----------
        requests
            The number of requests.
        blocks
            The number of blocks.
        draws
            The number of draws.
        seed
            Of the draws.
        """
        block = np.arange(requests, dtype=np.int64) * blocks // max(requests, 1)
        generator = np.random.Generator(np.random.PCG64(seed))
        drawn = generator.integers(blocks, size=(draws, blocks))
        counts = np.zeros((draws, blocks))
        np.add.at(counts, (np.arange(draws)[:, None], drawn), 1.0)
        return cls(counts, block)

    def means(self, values: Floats) -> Floats:
        """Return the mean of each draw; a request whose value is nan is left out."""
        there = ~np.isnan(values)
        sums = self._sums(np.where(there, values, 0.0))
        with np.errstate(invalid="ignore", divide="ignore"):
            return (self.counts @ sums) / (self.counts @ self._sums(there.astype(float)))

    def quantiles(self, values: Floats, share: float) -> Floats:
        """Return a quantile of each draw, linear between ranks; a request whose value is nan is left out."""
        there = np.flatnonzero(~np.isnan(values))
        order = there[np.argsort(values[there], kind="stable")]
        number = order.size
        if number == 0:
            return np.full(len(self.counts), math.nan)
        blocks = self.counts.shape[1]
        block, ordered = self.block[order], values[order]
        sizes = np.bincount(block, minlength=blocks).astype(float)
        weights = self.counts @ sizes
        centre = share * (number - 1)
        # How far the rank of the quantile moves from draw to draw.
        below = np.bincount(block[: math.ceil(centre)], minlength=blocks).astype(float)
        moved = float(np.std(self.counts @ (below - share * sizes)))
        reach = max(_REACH * moved, 2.0)
        first = max(0, math.floor(centre - reach))
        last = min(number - 1, math.ceil(centre + reach))
        ranks = np.unique(np.linspace(first, last, min(_GRID, last - first + 1)).round().astype(np.int64))
        # Requests at or below each rank of the window, by block; then by draw.
        cell = np.searchsorted(ranks, np.arange(last + 1))
        table = np.bincount(cell * blocks + block[: last + 1], minlength=ranks.size * blocks)
        table = table.reshape(ranks.size, blocks).cumsum(axis=0)
        reached = self.counts @ table.T.astype(float)
        # The quantile lies between two ranks of the draw, as numpy counts them.
        wanted = share * np.maximum(weights - 1, 0.0)
        lower, part = np.floor(wanted), np.mod(wanted, 1.0)
        whole = ranks.size == last - first + 1
        low = _at_rank(lower, reached, ordered[ranks], whole=whole)
        high = _at_rank(np.ceil(wanted), reached, ordered[ranks], whole=whole)
        return np.where(weights > 0, low + (high - low) * part, math.nan)

    def _sums(self, values: Floats) -> Floats:
        sums = np.bincount(self.block, weights=values, minlength=self.counts.shape[1])
        return sums.astype(np.float64)


def _at_rank(rank: Floats, reached: Floats, values: Floats, *, whole: bool) -> Floats:
    """Return for each draw the value of the request at a rank, counted from 0.

    Parameters
    ----------
    rank
        The rank in each draw.
    reached
        Requests of each draw at or below each value: a row a draw.
    values
        In ascending order.
    whole
        Whether no request of the trace lies between two values; if one does, the distribution is taken for a
        line between them.
    """
    index = np.minimum((reached <= rank[:, None]).sum(axis=1), values.size - 1)
    found: Floats = values[index]
    if whole:
        return found
    row, before = np.arange(rank.size), np.maximum(index - 1, 0)
    width = np.maximum(reached[row, index] - reached[row, before], 1.0)
    part = np.clip((rank + 1 - reached[row, before]) / width, 0.0, 1.0)
    between: Floats = values[before] + (found - values[before]) * part
    return between


def interval(draws: Floats, confidence: float) -> tuple[float, float]:
    """Return the ends of the interval that holds the middle share `confidence` of the draws."""
    known = draws[np.isfinite(draws)]
    if known.size < 2:
        return math.nan, math.nan
    low, high = np.quantile(known, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
