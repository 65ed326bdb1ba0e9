"""Distributions of seconds: how long a user thinks, and how long a tool takes.

Each is a quantile function, as those of `paceline.synthesis.lengths`: a number
between 0 and 1 in, seconds out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline._check import said
from paceline.errors import ConfigError
from paceline.synthesis.stable import Floats, exp, log, normal_quantile
from paceline.synthesis.tables import LogTable

__all__ = ["Durations", "ExponentialTime", "FixedTime", "LognormalTime", "QuantileTime"]


@runtime_checkable
class Durations(Protocol):
    """A distribution of seconds."""

    def seconds(self, u: Floats) -> Floats:
        """Give the seconds at probabilities `u`, strictly between 0 and 1."""
        ...


@dataclass(frozen=True, slots=True)
@typed_fields()
class FixedTime:
    """The same time always.

    Attributes
    ----------
    time_s
        Seconds, at least 0.
    """

    time_s: float

    def __post_init__(self) -> None:
        if not (_check.is_number(self.time_s) and self.time_s >= 0):
            raise ConfigError(f"time_s must be seconds, at least 0, was {said(self.time_s)}")

    @typed()
    def seconds(self, u: Floats) -> Floats:
        """Give `time_s` for every probability."""
        return np.full(len(u), float(self.time_s))


@dataclass(frozen=True, slots=True)
@typed_fields()
class ExponentialTime:
    """Exponential times.

    Attributes
    ----------
    mean_s
        Seconds, above 0.

    Examples
    --------
    >>> ExponentialTime(10.0).seconds(np.array([0.5])).round(4).tolist()  # 10 ln 2
    [6.9315]
    """

    mean_s: float

    def __post_init__(self) -> None:
        _check_time("mean_s", self.mean_s)

    @typed()
    def seconds(self, u: Floats) -> Floats:
        """Give the seconds at probabilities `u`."""
        drawn: Floats = -log(1.0 - u) * float(self.mean_s)
        return drawn


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class LognormalTime:
    """A lognormal; times above `high_s` are `high_s`.

    Attributes
    ----------
    median_s
        Seconds, above 0.
    sigma
        Standard deviation of the logarithm, from 0 to 20.
    high_s
        The longest time, in seconds.

    Examples
    --------
    >>> LognormalTime(median_s=1.0, sigma=2.0, high_s=60.0).seconds(np.array([0.5, 0.999])).tolist()
    [1.0, 60.0]
    """

    median_s: float
    sigma: float
    high_s: float = 86_400.0

    def __post_init__(self) -> None:
        _check_time("median_s", self.median_s)
        _check_time("high_s", self.high_s)
        if not (_check.is_number(self.sigma) and 0 <= self.sigma <= 20):
            raise ConfigError(f"sigma must be from 0 to 20, was {said(self.sigma)}")

    @typed()
    def seconds(self, u: Floats) -> Floats:
        """Give the seconds at probabilities `u`."""
        values = normal_quantile(u)
        values *= self.sigma
        values = exp(np.clip(values, -300.0, 300.0)) * float(self.median_s)
        return np.minimum(values, float(self.high_s))


@dataclass(frozen=True, slots=True)
@typed_fields()
class QuantileTime:
    """A table of quantiles, with straight lines between the logarithms of the times.

    Attributes
    ----------
    points
        Pairs of a probability and seconds above 0, both rising, the first probability 0 and the last 1.

    Examples
    --------
    >>> QuantileTime(((0, 0.01), (0.5, 1), (1, 100))).seconds(np.array([0.25, 0.75])).round(6).tolist()
    [0.1, 10.0]
    """

    points: tuple[tuple[float, float], ...]
    _table: LogTable = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_table", LogTable(self.points))

    @typed()
    def seconds(self, u: Floats) -> Floats:
        """Give the seconds at probabilities `u`."""
        return self._table.values(u)


def _check_time(name: str, value: float) -> None:
    if not (_check.is_number(value) and value > 0):
        raise ConfigError(f"{name} must be a finite number of seconds above 0, was {said(value)}")
