"""Distributions of token counts.

Each is a quantile function: a number between 0 and 1 in, a whole number of
tokens out. Real lengths of prompt and answer are correlated, if weakly (rank
correlations of -0.02 to 0.07 in Azure's, Mooncake's and ShareGPT's data);
two distributions drawn side by side are not. `Empirical` draws whole pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from paceline._arguments import typed, typed_fields
from paceline.errors import ConfigError
from paceline.synthesis.numbers import is_whole
from paceline.synthesis.stable import Floats, exp, log, normal_quantile
from paceline.trace.schema import TOKENS_LIMIT

__all__ = ["Constant", "Lengths", "Lognormal", "Quantiles", "Tokens", "Uniform"]

Tokens: TypeAlias = npt.NDArray[np.uint32]

# The standard normal quantile of 0.99.
_Z99: Final = 2.3263478740408408


# A power of two, so that finding a probability's slot is exact.
_SLOTS: Final = 4096


@runtime_checkable
class Lengths(Protocol):
    """A distribution of token counts."""

    def tokens(self, u: Floats) -> Tokens:
        """Give the counts at probabilities `u`, strictly between 0 and 1."""
        ...


@dataclass(frozen=True, slots=True)
@typed_fields()
class Constant:
    """The same count always.

    Attributes
    ----------
    count
        Tokens, at least 1.
    """

    count: int

    def __post_init__(self) -> None:
        _check_count("count", self.count)

    @typed()
    def tokens(self, u: Floats) -> Tokens:
        """Give `count` for every probability."""
        return np.full(len(u), self.count, dtype=np.uint32)


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Uniform:
    """Every count from `low` to `high`, both included, equally often.

    Attributes
    ----------
    low, high
        Tokens, at least 1.
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        _check_range(self.low, self.high)

    @typed()
    def tokens(self, u: Floats) -> Tokens:
        """Give the counts at probabilities `u`."""
        above = np.floor(u * float(self.high - self.low + 1))
        return (np.minimum(above, self.high - self.low) + self.low).astype(np.uint32)


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Lognormal:
    """A lognormal, rounded to whole tokens and held between `low` and `high`.

    Values outside are set to the nearer bound, not drawn again; `median` and `sigma` are those before that.

    Attributes
    ----------
    median
        Tokens, above 0.
    sigma
        Standard deviation of the logarithm, at least 0.
    low, high
        Bounds in tokens.

    Examples
    --------
    >>> round(Lognormal.from_mean_and_median(1000, 700).sigma, 4)
    0.8446
    >>> import numpy as np
    >>> Lognormal(median=100, sigma=0.5, high=150).tokens(np.array([0.01, 0.5, 0.99])).tolist()
    [31, 100, 150]
    """

    median: float
    sigma: float
    low: int = 1
    high: int = TOKENS_LIMIT - 1

    def __post_init__(self) -> None:
        _check_positive("median", self.median)
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise ConfigError(f"sigma must be a finite number of at least 0, was {self.sigma}")
        _check_range(self.low, self.high)

    @classmethod
    @typed()
    def from_mean(cls, mean: float, *, sigma: float, low: int = 1, high: int = TOKENS_LIMIT - 1) -> Lognormal:
        """Make the one of a given mean (before rounding and bounds) and sigma."""
        _check_positive("mean", mean)
        return cls(median=mean * _exp(-0.5 * sigma * sigma), sigma=sigma, low=low, high=high)

    @classmethod
    @typed()
    def from_mean_and_median(
        cls, mean: float, median: float, *, low: int = 1, high: int = TOKENS_LIMIT - 1
    ) -> Lognormal:
        """Make the one of a given mean and median (p50): sigma is the square root of 2 ln(mean / median)."""
        _check_positive("median", median)
        if not mean >= median:
            raise ConfigError(f"the mean of a lognormal must be at least its median {median}, was {mean}")
        return cls(median=median, sigma=math.sqrt(2.0 * _log(mean / median)), low=low, high=high)

    @classmethod
    @typed()
    def from_mean_and_p99(
        cls, mean: float, p99: float, *, low: int = 1, high: int = TOKENS_LIMIT - 1
    ) -> Lognormal:
        """Make the one of a given mean and 99th percentile, the narrower of the two that exist.

        With z the normal 99th percentile, ln(p99 / mean) = z sigma - sigma²/2.
        """
        _check_positive("mean", mean)
        if not p99 >= mean:
            raise ConfigError(f"p99 must be at least the mean {mean}, was {p99}")
        inside = _Z99 * _Z99 - 2.0 * _log(p99 / mean)
        if inside < 0:
            most = mean * math.exp(_Z99 * _Z99 / 2)
            raise ConfigError(f"p99 of a lognormal of mean {mean} must be at most {most:,.0f}, was {p99}")
        return cls.from_mean(mean, sigma=_Z99 - math.sqrt(inside), low=low, high=high)

    @typed()
    def tokens(self, u: Floats) -> Tokens:
        """Give the counts at probabilities `u`."""
        values = normal_quantile(u)
        values *= self.sigma
        values += _log(self.median)
        # e^22 is past the largest count, and keeps the exponential in its range.
        np.clip(values, -50.0, 22.0, out=values)
        return np.clip(np.rint(exp(values)), self.low, self.high).astype(np.uint32)


@dataclass(frozen=True, slots=True)
@typed_fields()
class Quantiles:
    """A table of quantiles with straight lines between them.

    Attributes
    ----------
    points
        Pairs of a probability and a count, both rising, the first probability 0 and the last 1.

    Examples
    --------
    >>> import numpy as np
    >>> Quantiles(((0, 10), (0.5, 20), (1, 100))).tokens(np.array([0.25, 0.5, 0.75])).tolist()
    [15, 20, 60]
    """

    points: tuple[tuple[float, int], ...]
    _table: _Table = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.points) < 2 or self.points[0][0] != 0 or self.points[-1][0] != 1:
            raise ConfigError(f"points must run from probability 0 to probability 1, was {self.points}")
        for (p, count), (next_p, next_count) in zip(self.points, self.points[1:], strict=False):
            if not (p < next_p and count <= next_count):
                raise ConfigError(f"points must rise, was {(p, count)} before {(next_p, next_count)}")
        _check_range(self.points[0][1], self.points[-1][1])
        object.__setattr__(self, "_table", _Table(self.points))

    @typed()
    def tokens(self, u: Floats) -> Tokens:
        """Give the counts at probabilities `u`."""
        return self._table.tokens(u)


class _Table:
    """Straight lines between points, with a guide to the line on which a probability lies.

    numpy's interp may fuse its multiplication and addition on some machines; these steps may not.
    """

    __slots__ = ("count", "guide", "looks", "p", "rise", "width")

    def __init__(self, points: tuple[tuple[float, int], ...]) -> None:
        self.p = np.array([p for p, _ in points], dtype=np.float64)
        self.count = np.array([count for _, count in points], dtype=np.float64)
        self.width = np.diff(self.p)
        self.rise = np.diff(self.count)
        starts = np.arange(_SLOTS + 1, dtype=np.float64) / _SLOTS
        lines = np.searchsorted(self.p, starts, side="right") - 1
        self.guide = lines[:-1]
        self.looks = int(np.max(lines[1:] - lines[:-1]))

    def tokens(self, u: Floats) -> Tokens:
        line = self.guide[(u * _SLOTS).astype(np.int64)]
        for _ in range(self.looks):
            line += u >= self.p[line + 1]
        values = u - self.p[line]
        values /= self.width[line]
        values *= self.rise[line]
        values += self.count[line]
        return np.rint(values, out=values).astype(np.uint32)


def _exp(x: float) -> float:
    return float(exp(np.array([x]))[0])


def _log(x: float) -> float:
    return float(log(np.array([x]))[0])


def _check_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(f"{name} must be a finite number of tokens above 0, was {value}")


def _check_count(name: str, value: int) -> None:
    if not (is_whole(value) and 1 <= value < TOKENS_LIMIT):
        most = TOKENS_LIMIT - 1
        raise ConfigError(f"{name} must be a whole number of tokens from 1 to {most:,}, was {value}")


def _check_range(low: int, high: int) -> None:
    _check_count("low", low)
    _check_count("high", high)
    if low > high:
        raise ConfigError(f"low must be at most high, was {low} and {high}")
