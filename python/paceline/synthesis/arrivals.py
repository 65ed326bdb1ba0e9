"""Arrival processes: the times of requests, at a given mean rate.

Each gives times in seconds from 0, rising. An infinite rate puts every
request at 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import numpy as np

from paceline._arguments import typed, typed_fields
from paceline._check import is_number, said
from paceline.errors import ConfigError
from paceline.synthesis.numbers import check_rate, is_whole
from paceline.synthesis.stable import Floats, exp, log, normal_quantile
from paceline.synthesis.streams import PART, Stream

__all__ = ["Arrivals", "BenchmarkClient", "Bursts", "Gamma", "Poisson", "Regular", "times_in_parts"]

# Below this the exponential of a gap's logarithm is 0 s for every purpose.
_LEAST_LOG: Final = -600.0


@runtime_checkable
class Arrivals(Protocol):
    """An arrival process."""

    def times(self, count: int, rate: float, seed: int) -> Floats:
        """Return `count` arrival times in seconds, at a mean `rate` per second."""
        ...


@dataclass(frozen=True, slots=True)
@typed_fields()
class Poisson:
    """Independent exponential gaps, the first of them before the first request."""

    @typed()
    def times(self, count: int, rate: float, seed: int) -> Floats:
        """Return the arrival times."""
        _check_draw(count, rate, seed)
        return _summed(_filled(count, _exponentials(Stream(seed, "arrival"))), rate)


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Gamma:
    """Independent Gamma gaps, the first of them before the first request.

    Attributes
    ----------
    cv
        Coefficient of variation of the gaps, standard deviation over mean: 1 is Poisson, more is burstier.
        Above 0, at most 100.
    """

    cv: float

    def __post_init__(self) -> None:
        if not 0 < self.cv <= 100:
            raise ConfigError(f"cv must be above 0 and at most 100, was {self.cv}")

    @typed()
    def times(self, count: int, rate: float, seed: int) -> Floats:
        """Return the arrival times."""
        _check_draw(count, rate, seed)
        shape = 1.0 / (self.cv * self.cv)
        gaps = _filled(count, _gammas(shape, Stream(seed, "arrival"), Stream(seed, "arrival boost")))
        return _summed(gaps, rate * shape)


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class BenchmarkClient:
    """The arrivals that vLLM's benchmark client sent before 0.11, number for number.

    ``np.random.seed(seed)``, the first request at 0, then a gap of ``np.random.gamma(shape=burstiness,
    scale=1 / (rate * burstiness))`` before each of the others, not rescaled (``benchmark_serving.py``, which
    the authors of layered prefill have too: ``benchmarks/benchmark_serving.py``, 427f4416). The client draws
    nothing else from that generator where its data set needs no shuffle.

    NumPy keeps this generator as it is (NEP 19); its logarithm is the platform's, so the last bit of a time
    may differ between platforms.

    Attributes
    ----------
    seed
        The client's. The seed of a synthesis moves lengths alone.
    burstiness
        1 is Poisson, less is burstier.

    Examples
    --------
    >>> BenchmarkClient().times(3, 1.0, seed=7).round(4).tolist()
    [0.0, 0.7959, 2.0518]
    """

    seed: int = 0
    burstiness: float = 1.0

    def __post_init__(self) -> None:
        if not (is_whole(self.seed) and 0 <= self.seed < 2**32):
            raise ConfigError(f"seed must be a whole number from 0 to 2**32 - 1, was {said(self.seed)}")
        if not (is_number(self.burstiness) and self.burstiness > 0):
            raise ConfigError(f"burstiness must be a number above 0, was {said(self.burstiness)}")

    @typed()
    def times(self, count: int, rate: float, seed: int) -> Floats:
        """Return the arrival times; `seed` is not used."""
        _check_draw(count, rate, seed)
        drawn = np.random.RandomState(self.seed)
        times = np.zeros(count, dtype=np.float64)
        if count > 1 and math.isfinite(rate):
            scale = 1.0 / (rate * self.burstiness)
            np.cumsum(drawn.gamma(self.burstiness, scale, count - 1), out=times[1:])
        return times


@dataclass(frozen=True, slots=True)
@typed_fields()
class Regular:
    """Equal gaps, the first request at 0."""

    @typed()
    def times(self, count: int, rate: float, seed: int) -> Floats:
        """Return the arrival times."""
        _check_draw(count, rate, seed)
        return np.arange(count, dtype=np.float64) / rate


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Bursts:
    """Bursts of a fixed size that start as a Poisson process, the first of them after a gap.

    Attributes
    ----------
    size
        Requests in a burst, at least 1.
    spread_s
        Seconds over which the requests of a burst are evenly laid; 0 lets them come at once.
    """

    size: int
    spread_s: float = 0.0

    def __post_init__(self) -> None:
        if not (is_whole(self.size) and self.size >= 1):
            raise ConfigError(f"size must be a whole number of requests, at least 1, was {said(self.size)}")
        if not (is_number(self.spread_s) and self.spread_s >= 0):
            was = said(self.spread_s)
            raise ConfigError(f"spread_s must be a finite number of seconds, at least 0, was {was}")

    @typed()
    def times(self, count: int, rate: float, seed: int) -> Floats:
        """Return the arrival times."""
        _check_draw(count, rate, seed)
        bursts = -(-count // self.size)
        starts = _summed(_filled(bursts, _exponentials(Stream(seed, "arrival"))), rate / self.size)
        times = np.repeat(starts, self.size)[:count]
        if self.spread_s > 0:
            times += np.arange(count, dtype=np.int64) % self.size * (self.spread_s / self.size)
            times.sort(kind="stable")
        return times


def times_in_parts(arrivals: Arrivals, count: int, rate: float, seed: int, rows: int) -> Iterator[Floats]:
    """Return the times that ``arrivals.times(count, rate, seed)`` returns, in parts of so many rows.

    Raises
    ------
    ConfigError
        If the process does not draw one gap after the other.
    """
    _check_draw(count, rate, seed)
    if isinstance(arrivals, Regular):
        starts = range(0, count, rows)
        return (np.arange(at, min(at + rows, count), dtype=np.float64) / rate for at in starts)
    if isinstance(arrivals, Poisson):
        return _running_sums(_exponentials(Stream(seed, "arrival")), rate, count, rows)
    if isinstance(arrivals, Gamma):
        shape = 1.0 / (arrivals.cv * arrivals.cv)
        more = _gammas(shape, Stream(seed, "arrival"), Stream(seed, "arrival boost"))
        return _running_sums(more, rate * shape, count, rows)
    raise ConfigError(
        f"arrivals must be Poisson, Gamma or Regular where a trace is drawn in parts, was {said(arrivals)}: "
        "others draw all arrivals at once"
    )


def _running_sums(more: Callable[[], Floats], rate: float, count: int, rows: int) -> Iterator[Floats]:
    """Return running sums of gaps as `_summed` does, in parts of so many rows."""
    total, left = 0.0, np.empty(0)
    for at in range(0, count, rows):
        wanted = min(rows, count - at)
        gaps = [left]
        while sum(map(len, gaps)) < wanted:
            gaps.append(more())
        drawn = np.concatenate(gaps)
        left = drawn[wanted:]
        sums = np.cumsum(np.concatenate(([total], drawn[:wanted])))[1:]
        total = float(sums[-1])
        yield sums / rate


def _check_draw(count: int, rate: float, seed: int) -> None:
    """Refuse a count, a rate or a seed that nothing can be drawn with."""
    check_rate(rate)
    for name, value, most in (("count", count, 2**32 - 1), ("seed", seed, 2**256 - 1)):
        if not 0 <= value <= most:
            raise ConfigError(f"{name} must be a whole number from 0 to {most}, was {said(value)}")


def _filled(count: int, more: Callable[[], Floats]) -> Floats:
    """Join parts until there are `count` numbers."""
    numbers = np.empty(count, dtype=np.float64)
    at = 0
    while at < count:
        part = more()[: count - at]
        numbers[at : at + len(part)] = part
        at += len(part)
    return numbers


def _summed(gaps: Floats, rate: float) -> Floats:
    """Give running sums of gaps, in place, divided by `rate`; cumsum adds one at a time, in order."""
    np.cumsum(gaps, out=gaps)
    gaps /= rate
    return gaps


def _exponentials(stream: Stream) -> Callable[[], Floats]:
    """Draw parts of exponentials of mean 1."""
    return lambda: -log(stream.uniforms(PART))


def _gammas(shape: float, stream: Stream, boost: Stream) -> Callable[[], Floats]:
    """Draw parts of Gamma variates of scale 1, as many of each part as are accepted.

    G. Marsaglia, W. W. Tsang, A Simple Method for Generating Gamma Variables, ACM TOMS 26 (2000) 363-372;
    below a shape of 1 by their section 6: Gamma(shape) is Gamma(shape + 1) times U^(1 / shape).
    """
    d = (shape if shape >= 1 else shape + 1) - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)

    def part() -> Floats:
        z = normal_quantile(stream.uniforms(PART))
        u = stream.uniforms(PART)
        root = 1.0 + c * z
        v = np.maximum(root * root * root, 1e-300)
        log_v = log(v)
        accepted = (root > 0) & (log(u) < 0.5 * z * z + d - d * v + d * log_v)
        if shape >= 1:
            return d * v[accepted]
        total = log_v[accepted]
        total += log(boost.uniforms(len(total))) / shape
        return d * exp(np.maximum(total, _LEAST_LOG))

    return part
