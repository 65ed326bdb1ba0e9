"""Loads that change with time: ramps, steps, days, and bursts that come and go.

Each is a rate over time, in arrivals per second, and an arrival process: the
times of a process of mean rate 1 are moved to where the expected number of
arrivals reaches them (an inhomogeneous Poisson process, if that process is
`Poisson`; Cinlar, Introduction to Stochastic Processes, 1975, section 4.7). So
`rate` of a synthesis multiplies the shape: it is 1 if not given.
`Trace.reshaped` moves the arrivals of a trace likewise, without drawing any.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline._check import said
from paceline.errors import ConfigError
from paceline.synthesis.arrivals import Arrivals, Poisson
from paceline.synthesis.stable import Floats, log
from paceline.synthesis.warping import along, warped

__all__ = ["Ramp", "Steps"]


@dataclass(frozen=True, slots=True)
@typed_fields()
class Ramp:
    """A rate that changes from `start` to `end` over a time, and stays there.

    Attributes
    ----------
    start, end
        Arrivals per second; `end` above 0, `start` at least 0, and above 0 if the shape is exponential.
    over_s
        Seconds from one to the other, above 0.
    shape
        ``"linear"``, or ``"exponential"``: the same factor in each second.
    process
        The process that is moved; Poisson by default.

    Examples
    --------
    From 0 to 10 a second over 10 s: the expected number of arrivals until t is t² / 2.

    >>> Ramp(0, 10, over_s=10).moments(np.array([2.0, 50.0, 60.0])).tolist()
    [2.0, 10.0, 11.0]

    Notes
    -----
    `BenchmarkRamp` is the ramp of ``vllm bench serve --ramp-up-strategy``, whose rate depends on how many
    requests were sent, and not on the time.
    """

    start: float
    end: float
    over_s: float = field(kw_only=True)
    shape: Literal["linear", "exponential"] = field(default="linear", kw_only=True)
    process: Arrivals = field(default_factory=Poisson, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("start", "end", "over_s"):
            value = getattr(self, name)
            low = name == "start" and self.shape == "linear" and value == 0
            if not (_check.is_number(value) and (value > 0 or low)):
                least = "at least 0" if name == "start" and self.shape == "linear" else "above 0"
                raise ConfigError(f"{name} of a Ramp must be a finite number {least}, was {said(value)}")

    @typed()
    def times(self, count: int, rate: float, seed: int) -> Floats:
        """Return the arrival times; `rate` multiplies the shape."""
        return warped(self, self.process, count, rate, seed)

    @typed()
    def moments(self, counts: Floats, *, seed: int = 0) -> Floats:
        """Return when the expected number of arrivals since 0 reaches each of `counts`, whatever the seed."""
        start, end, over = float(self.start), float(self.end), float(self.over_s)
        if self.shape == "linear":
            reached = (start + end) / 2.0 * over
            slope = (end - start) / over
            inside = np.minimum(counts, reached)
            root = np.sqrt(np.maximum(start * start + 2.0 * slope * inside, 0.0))
            root += start
            rising = np.divide(2.0 * inside, root, out=np.zeros_like(inside), where=root > 0)
        else:
            growth = float(log(np.array([end / start]))[0]) / over
            reached = (end - start) / growth if growth else start * over
            inside = np.minimum(counts, reached)
            rising = log(1.0 + inside * (growth / start)) / growth if growth else inside / start
        moments: Floats = np.minimum(rising, over) + (counts - inside) / end
        return moments


@dataclass(frozen=True, slots=True)
@typed_fields()
class Steps:
    """A rate that is constant between given moments.

    Attributes
    ----------
    stages
        Pairs of the second at which a stage starts and its arrivals per second, at least 0; the first starts
        at 0, and they rise. The last rate is above 0, as it lasts for ever, unless the stages repeat.
    repeat_s
        Seconds after which the stages start again; None: they do not.
    process
        The process that is moved; Poisson by default.

    Examples
    --------
    >>> Steps(((0, 1), (10, 0), (20, 5))).moments(np.array([5.0, 10.0, 15.0])).tolist()
    [5.0, 20.0, 21.0]
    >>> Steps(((0, 1), (10, 0)), repeat_s=60).moments(np.array([5.0, 15.0])).tolist()
    [5.0, 65.0]
    """

    stages: tuple[tuple[float, float], ...]
    repeat_s: float | None = field(default=None, kw_only=True)
    process: Arrivals = field(default_factory=Poisson, kw_only=True)

    def __post_init__(self) -> None:
        starts = [start for start, _ in self.stages]
        rates = [rate for _, rate in self.stages]
        if not starts or starts[0] != 0 or any(a >= b for a, b in pairwise(starts)):
            raise ConfigError(f"stages must start at 0 s and rise, was {said(starts)}")
        if not all(map(_check.is_number, [*starts, *rates])) or min(rates) < 0:
            raise ConfigError(f"rates of stages must be finite and at least 0, was {said(rates)}")
        if self.repeat_s is None:
            if rates[-1] <= 0:
                raise ConfigError(f"the last rate of stages must be above 0, was {said(rates[-1])}")
        elif not (_check.is_number(self.repeat_s) and self.repeat_s > starts[-1]):
            raise ConfigError(
                f"repeat_s must be after the last stage, which starts at {starts[-1]} s, was "
                f"{said(self.repeat_s)}"
            )
        elif max(rates) <= 0:
            raise ConfigError(f"some rate of stages must be above 0, was {said(rates)}")

    @typed()
    def times(self, count: int, rate: float, seed: int) -> Floats:
        """Return the arrival times; `rate` multiplies the shape."""
        return warped(self, self.process, count, rate, seed)

    @typed()
    def moments(self, counts: Floats, *, seed: int = 0) -> Floats:
        """Return when the expected number of arrivals since 0 reaches each of `counts`, whatever the seed."""
        starts = np.array([start for start, _ in self.stages], dtype=np.float64)
        rates = np.array([rate for _, rate in self.stages], dtype=np.float64)
        if self.repeat_s is None:
            return along(counts, starts, rates)
        lengths = np.diff(np.append(starts, float(self.repeat_s)))
        whole = float(np.cumsum(lengths * rates)[-1])
        rounds = np.floor(counts / whole)
        rest = counts - rounds * whole
        return along(np.clip(rest, 0.0, whole), starts, rates) + rounds * float(self.repeat_s)
