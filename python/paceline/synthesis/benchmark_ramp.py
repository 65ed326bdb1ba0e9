"""The ramp of vLLM's benchmark client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline._check import said
from paceline.errors import ConfigError
from paceline.synthesis.numbers import is_whole
from paceline.synthesis.stable import Floats

__all__ = ["BenchmarkRamp"]


@dataclass(frozen=True, slots=True)
@typed_fields()
class BenchmarkRamp:
    """The arrivals of ``vllm bench serve --ramp-up-strategy``, number for number.

    The rate goes from `start` to `end` with the number of requests sent, and not with the time: request i of
    n comes a Gamma gap after the one before it, the first one too, at the rate of the progress i / (n - 1).
    Linearly in time, as in `Ramp`, more of the requests come at the high rates.

    NumPy keeps this generator as it is (NEP 19); its logarithm is the platform's, so the last bit of a time
    may differ between platforms.

    Attributes
    ----------
    start, end
        Requests per second at the first and at the last request, above 0, `start` at most `end`.
    shape
        ``"linear"`` or ``"exponential"``, as ``--ramp-up-strategy``.
    burstiness
        1 is Poisson, less is burstier.
    seed
        The client's. The seed of a synthesis moves lengths alone.

    Examples
    --------
    >>> BenchmarkRamp(1, 10).times(3, 1.0, seed=7).round(4).tolist()
    [0.7959, 1.0242, 1.1165]

    Notes
    -----
    ``get_request`` in ``vllm/benchmarks/serve.py`` (0.11). There, too, a linear ramp from 0 is refused: the
    first gap would have no end.
    """

    start: float
    end: float
    shape: Literal["linear", "exponential"] = field(default="linear", kw_only=True)
    burstiness: float = field(default=1.0, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("start", "end", "burstiness"):
            value = getattr(self, name)
            if not (_check.is_number(value) and value > 0):
                raise ConfigError(f"{name} of a BenchmarkRamp must be above 0, was {said(value)}")
        if self.start > self.end:
            raise ConfigError(
                f"start of a BenchmarkRamp must be at most end, which is {self.end}, was {self.start}"
            )
        if not (is_whole(self.seed) and 0 <= self.seed < 2**32):
            raise ConfigError(f"seed must be a whole number from 0 to 2**32 - 1, was {said(self.seed)}")

    @typed()
    def times(self, count: int, rate: float, seed: int) -> Floats:
        """Return the arrival times; `rate` multiplies the rates, and `seed` is not used."""
        progress = np.arange(count, dtype=np.float64) / max(count - 1, 1)
        if self.shape == "linear":
            rates = self.start + (self.end - self.start) * progress
        else:
            rates = self.start * (self.end / self.start) ** progress
        drawn = np.random.RandomState(self.seed)
        times: Floats = np.cumsum(drawn.gamma(self.burstiness, 1.0 / (rates * self.burstiness)))
        return times / rate
