"""What batches of unequal contexts take more than their mean says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline.errors import ConfigError
from paceline.kernels.grid import check_points

__all__ = ["ALPHA_ONE", "CELLS", "Skew"]

#: Parts of one in which the engine is sent an alpha: ``TABLE_ONE`` of rust/core/src/cost/table/skew.rs.
ALPHA_ONE = 2**20
#: Cells of the ratio of mean to longest context. More follow a measured curve closer, and cut runs shorter.
CELLS = 128
_MOST = 64.0


_MOST_CELLS = 2**16
"""Cells of the ratio of mean to longest; 32 by default."""


@dataclass(frozen=True, slots=True, eq=False)
@typed_fields()
class Skew:
    """``alpha = (t_skew - t_mean) / (t_max - t_mean)`` by prompt tokens, requests and ratio of contexts.

    A step's attention over unequal contexts takes ``t_mean + alpha * (t_max - t_mean)``, with the times that
    the table has for batches of the mean and of the longest context. Measurements are of batches with some
    long and else short contexts; any batch is taken for the one of those with the same mean and the same
    longest. The shortest context, which bucketed fits use, does not enter: it moves no work.

    Parameters
    ----------
    tokens, requests
        Points of the first two axes; 0 tokens are steps that only decode, which run a kernel of their own.
    alpha
        Of shape (tokens, requests, cells): over the mean divided by the longest context, in equal cells from
        0 to 1, each with the value at its middle.

    Examples
    --------
    >>> rows = [(0, 4, 0.25, 1.0, 2.0, 1.5), (0, 4, 0.75, 1.0, 2.0, 1.0)]
    >>> skew = Skew.of(rows)
    >>> round(skew(0, 4, 0.5), 2)
    0.25
    """

    tokens: tuple[int, ...]
    requests: tuple[int, ...]
    alpha: NDArray[np.float64]

    @classmethod
    @typed()
    def of(cls, rows: Iterable[tuple[int, int, float, float, float, float]], cells: int = CELLS) -> Skew:
        """Fit alpha to measured batches.

        Parameters
        ----------
        rows
            Prompt tokens, requests, mean over longest context, and the three times: at the mean, at the
            longest, of the batch itself. At one place on the three axes alpha is the least-squares fit over
            the sizes measured, so that those with little between mean and longest say little.
        cells
            Cells of the ratio.

        Raises
        ------
        ConfigError
            If there is nothing to fit.
        """
        rows = list(rows)
        sums: dict[tuple[int, int], dict[float, list[float]]] = {}
        _check.count("cells of a Skew", cells, most=_MOST_CELLS)
        given: list[object] = list(rows)
        for each in given:
            if not isinstance(each, tuple | list) or len(each) != 6 or not all(map(_check.is_number, each)):
                raise ConfigError(f"a row of a skew must have six numbers, was {_check.said(each)}")
        for tokens, requests, ratio, mean, most, batch in rows:
            pair = sums.setdefault((tokens, requests), {}).setdefault(round(ratio, 6), [0.0, 0.0])
            pair[0] += (most - mean) * (batch - mean)
            pair[1] += (most - mean) ** 2
        middles = (np.arange(cells) + 0.5) / cells
        measured: dict[int, dict[int, NDArray[np.float64]]] = {}
        for (tokens, requests), by_ratio in sums.items():
            fits = sorted((ratio, top / below) for ratio, (top, below) in by_ratio.items() if below > 0)
            if fits:
                ratios, alphas = zip(*fits, strict=True)
                measured.setdefault(tokens, {})[requests] = np.interp(middles, ratios, alphas)
        if not measured:
            raise ConfigError(
                "skew must have at least 1 batch with a longest context that takes longer, had 0"
            )
        sizes = sorted({requests for by_size in measured.values() for requests in by_size})
        check_points([len(measured), len(sizes), cells], "skew")
        alpha = np.empty((len(measured), len(sizes), cells))
        for row, tokens in enumerate(sorted(measured)):
            by_size = measured[tokens]
            known = sorted(by_size)
            table = np.stack([by_size[requests] for requests in known])
            for cell in range(cells):
                alpha[row, :, cell] = np.interp(sizes, known, table[:, cell])
        return cls(tuple(sorted(measured)), tuple(sizes), alpha)

    def __call__(self, tokens: float, requests: float, ratio: float) -> float:
        """Return alpha at a place, level past the ends of what was measured."""
        cell = min(int(ratio * self.alpha.shape[2]), self.alpha.shape[2] - 1)
        first = 1 if tokens > 0 and self.tokens[0] == 0 and len(self.tokens) > 1 else 0
        by_tokens = [float(np.interp(requests, self.requests, row[:, cell])) for row in self.alpha[first:]]
        return float(np.interp(tokens, self.tokens[first:], by_tokens))

    def to_wire(self) -> dict[str, Any]:
        """Return what the engine is sent."""
        alpha = np.rint(np.clip(self.alpha, -_MOST, _MOST) * ALPHA_ONE).astype(np.int64)
        return {
            "tokens": list(self.tokens),
            "requests": list(self.requests),
            "cells": self.alpha.shape[2],
            "alpha": alpha.reshape(-1).tolist(),
        }
