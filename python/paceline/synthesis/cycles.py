"""Loads that come and go: a daily cycle, and bursts between quieter times."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

import numpy as np

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline._check import said
from paceline.errors import ConfigError
from paceline.synthesis.arrivals import Arrivals, Poisson
from paceline.synthesis.rates import Steps
from paceline.synthesis.stable import Floats, log
from paceline.synthesis.streams import Stream
from paceline.synthesis.warping import along, warped

__all__ = ["Diurnal", "OnOff"]

_SLOTS = 1440
"""Constant rates in a period of a Diurnal: a minute each, in a day."""


@dataclass(frozen=True, slots=True)
@typed_fields()
class Diurnal:
    """A rate that swings as a sine: ``mean (1 + swing sin(2 π (t + phase_s) / period_s))``.

    The rate is constant in each of 1,440 slots of a period (minutes of a day), at the sine's mean there.

    Attributes
    ----------
    mean
        Arrivals per second, above 0.
    swing
        The peak above the mean, as a part of it, from 0 to 1.
    period_s
        Seconds of a cycle; a day by default.
    phase_s
        How far the cycle is at 0, in seconds: a quarter of a period starts at the peak.
    process
        The process that is moved; Poisson by default.

    Examples
    --------
    A quarter of a period in which the rate is 2 at first and 2 (1 + 1) at its end has 2 (25 + 100 / 2 π)
    arrivals, 81.8:

    >>> Diurnal(2, swing=1, period_s=100).moments(np.array([2 * (25 + 50 / np.pi)])).round(2).tolist()
    [25.0]
    """

    mean: float
    swing: float = field(kw_only=True)
    period_s: float = field(default=86_400.0, kw_only=True)
    phase_s: float = field(default=0.0, kw_only=True)
    process: Arrivals = field(default_factory=Poisson, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("mean", "period_s"):
            value = getattr(self, name)
            if not (_check.is_number(value) and value > 0):
                raise ConfigError(f"{name} of a Diurnal must be a finite number above 0, was {said(value)}")
        if not (_check.is_number(self.swing) and 0 <= self.swing <= 1):
            raise ConfigError(f"swing of a Diurnal must be from 0 to 1, was {said(self.swing)}")
        if not _check.is_number(self.phase_s):
            raise ConfigError(f"phase_s of a Diurnal must be a finite number, was {said(self.phase_s)}")

    @typed()
    def times(self, count: int, rate: float, seed: int) -> Floats:
        """Return the arrival times; `rate` multiplies the shape."""
        return warped(self, self.process, count, rate, seed)

    @typed()
    def moments(self, counts: Floats, *, seed: int = 0) -> Floats:
        """Return when the expected number of arrivals since 0 reaches each of `counts`, whatever the seed."""
        period, mean = float(self.period_s), float(self.mean)
        stages = [
            (period * slot / _SLOTS, mean * (1.0 + self.swing * sine)) for slot, sine in enumerate(_sines())
        ]
        cycle = Steps(tuple(stages), repeat_s=period)
        late = self.phase_s % period
        if late == 0:
            return cycle.moments(counts)
        starts, rates = np.array(stages).T
        place = int(np.searchsorted(starts, late, side="right")) - 1
        before = float(np.cumsum(rates[:place])[-1]) * (period / _SLOTS) if place else 0.0
        before += (late - starts[place]) * rates[place]
        return np.maximum(cycle.moments(counts + before) - late, 0.0)


@dataclass(frozen=True, slots=True)
@typed_fields()
class OnOff:
    """Bursts: a rate that jumps between `high` and `low` after exponential times.

    The Markov-modulated Poisson process of two states. It starts in the one that it would be found in at any
    moment, and the seed draws how long it stays.

    Attributes
    ----------
    high, low
        Arrivals per second in a burst, above 0, and between bursts, at least 0.
    high_s, low_s
        Mean seconds of a burst, and between two of them, above 0.
    process
        The process that is moved; Poisson by default.

    Examples
    --------
    Ten a second in bursts of 2 s every 10 s, and nothing between them:

    >>> bursts = OnOff(10, 0, high_s=2, low_s=8)
    >>> bursts.mean
    2.0
    >>> len(bursts.times(100, 1.0, seed=1))
    100

    Notes
    -----
    W. Fischer and K. Meier-Hellstern, The Markov-modulated Poisson process (MMPP) cookbook, Performance
    Evaluation 18 (1993) 149-171, which has the variance of its counts.
    """

    high: float
    low: float = 0.0
    high_s: float = field(kw_only=True)
    low_s: float = field(kw_only=True)
    process: Arrivals = field(default_factory=Poisson, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("high", "high_s", "low_s"):
            value = getattr(self, name)
            if not (_check.is_number(value) and value > 0):
                raise ConfigError(f"{name} of an OnOff must be a finite number above 0, was {said(value)}")
        if not (_check.is_number(self.low) and 0 <= self.low <= self.high):
            raise ConfigError(
                f"low of an OnOff must be from 0 to high, which is {self.high}, was {said(self.low)}"
            )

    @property
    def mean(self) -> float:
        """Arrivals per second over a long time."""
        return (self.high * self.high_s + self.low * self.low_s) / (self.high_s + self.low_s)

    @typed()
    def times(self, count: int, rate: float, seed: int) -> Floats:
        """Return the arrival times; `rate` multiplies the shape."""
        return warped(self, self.process, count, rate, seed)

    @typed()
    def moments(self, counts: Floats, *, seed: int = 0) -> Floats:
        """Return when the number of arrivals that the drawn phases expect reaches each of `counts`."""
        most = float(np.max(counts, initial=0.0))
        stream = Stream(seed, "phases")
        share = self.high_s / (self.high_s + self.low_s)
        first = 0 if float(stream.uniforms(1)[0]) < share else 1
        means = np.array([self.high_s, self.low_s], dtype=np.float64)
        levels = np.array([self.high, self.low], dtype=np.float64)
        starts, rates, reached, end = [np.zeros(1)], [], 0.0, 0.0
        while reached <= most:
            states = (np.arange(256) + first) % 2
            spans = -log(stream.uniforms(256)) * means[states]
            ends = np.cumsum(np.concatenate([[end], spans]))[1:]
            reached += float(np.cumsum(spans * levels[states])[-1])
            starts.append(ends)
            rates.append(levels[states])
            end = float(ends[-1])
        return along(counts, np.concatenate(starts)[:-1], np.concatenate(rates))


@cache
def _sines() -> tuple[float, ...]:
    """Return the mean of a sine in each slot of its period, the same bits on every machine."""
    angle = 6.283185307179586
    cosines = [_cosine(angle * slot / _SLOTS) for slot in range(_SLOTS + 1)]
    width = angle / _SLOTS
    return tuple((here - there) / width for here, there in pairwise(cosines))


def _cosine(x: float) -> float:
    """Return a cosine by its series, of which Python evaluates each operation by itself."""
    term, total, square = 1.0, 1.0, x * x
    for n in range(1, 30):
        term *= -square / ((2 * n - 1) * (2 * n))
        total += term
    return total
