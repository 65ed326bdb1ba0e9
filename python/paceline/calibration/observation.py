"""Observations: of a step, of a prompt, or of served requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline.calibration.benchmark import Benchmark
from paceline.calibration.candidate import ARRIVALS, METRICS
from paceline.errors import ConfigError

if TYPE_CHECKING:
    from paceline.calibration.candidate import Candidate

__all__ = ["Observation", "Of", "Prompt", "Serving", "Step"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Step:
    """The seconds of one step.

    Parameters
    ----------
    decodes, context
        Decoding requests, and tokens of context that each attends to, its own among them.
    prefill, history
        Tokens of one prompt, and tokens of it computed before.
    """

    decodes: int = 0
    context: int = 0
    prefill: int = 0
    history: int = 0

    def __post_init__(self) -> None:
        for name in ("decodes", "context", "prefill", "history"):
            _check.count(f"{name} of a Step", getattr(self, name), least=0)
        if not self.decodes + self.prefill:
            raise ConfigError("a Step must have decodes or prefill, had neither")

    @typed()
    def predict(self, candidate: Candidate) -> float:
        """Return a candidate's prediction."""
        parts = candidate.kernels(
            decodes=self.decodes, context=self.context, prefill=self.prefill, history=self.history
        )
        return sum(parts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Prompt:
    """The seconds of a prompt that is alone, cut into chunks, or the share of them in one kernel.

    Parameters
    ----------
    tokens
        Of the prompt.
    chunk
        The most tokens of a step.
    share
        A kernel, of which the share of the time was observed: ``"experts"``, ``"attention"``, ``"linears"``,
        ``"all_reduce"``; by default the time.
    kernels_only
        Whether the time that no kernel explains (``step_s``) is left out, for measurements of kernels.
    """

    tokens: int
    chunk: int
    share: str | None = None
    kernels_only: bool = False

    def __post_init__(self) -> None:
        _check.count("tokens of a Prompt", self.tokens)
        _check.count("chunk of a Prompt", self.chunk)
        known = ("experts", "attention", "linears", "all_reduce")
        if self.share is not None and self.share not in known:
            raise ConfigError(f"share of a Prompt must be one of {', '.join(known)}, was {self.share!r}")

    @typed()
    def predict(self, candidate: Candidate) -> float:
        """Return a candidate's prediction."""
        whole = part = 0.0
        for before in range(0, self.tokens, self.chunk):
            parts = candidate.kernels(prefill=min(self.chunk, self.tokens - before), history=before)
            whole += sum(parts.values())
            if self.kernels_only:
                efficiency = candidate.roofline.efficiency or candidate.gpu.efficiency
                whole -= efficiency.step_s if efficiency is not None else 0.0
            part += parts[self.share] if self.share else 0.0
        return part / whole if self.share else whole


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Serving:
    """A latency, or traffic, of requests served with chunked prefill.

    The prediction is the median over several drawn traces: a published number is of one trace, and means of
    latencies near saturation are skewed.

    Parameters
    ----------
    metric
        One of `paceline.calibration.candidate.METRICS`.
    workload, rate
        A preset of `paceline.synthesis.presets`, and requests a second.
    chunk
        Tokens of a step, decodes among them.
    requests, seeds
        Requests of a trace, and how many traces.
    arrivals
        ``"workload"``, the workload's own process, or ``"benchmark-client"``: vLLM's client from seed 0, so
        that traces differ in lengths alone.
    """

    metric: str
    workload: str
    rate: float
    chunk: int
    requests: int = 200
    seeds: int = 24
    arrivals: str = "workload"

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise ConfigError(f"metric of a Serving must be one of {', '.join(METRICS)}, was {self.metric!r}")
        _check.positive("rate of a Serving", self.rate)
        for name in ("chunk", "requests", "seeds"):
            _check.count(f"{name} of a Serving", getattr(self, name))
        if self.arrivals not in ARRIVALS:
            raise ConfigError(
                f"arrivals of a Serving must be one of {', '.join(ARRIVALS)}, was {self.arrivals!r}"
            )

    @typed()
    def predict(self, candidate: Candidate) -> float:
        """Return a candidate's prediction."""
        served = candidate.served(
            workload=self.workload,
            rate=self.rate,
            chunk=self.chunk,
            requests=self.requests,
            seeds=self.seeds,
            arrivals=self.arrivals,
        )
        return served[self.metric]


Of: TypeAlias = Step | Prompt | Serving | Benchmark


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Observation:
    """A number that was measured, or a bound on one.

    Parameters
    ----------
    name
        The name, different from all others.
    of
        The work that was observed.
    value
        The number, above 0.
    bound
        ``"at_least"`` or ``"at_most"`` if only a bound is known: a prediction that keeps it costs nothing.
    tolerance
        The deviation, as a share of the value, that counts as one: the weight is its inverse.
    source
        The source of the number.

    Raises
    ------
    ConfigError
        If the value or the tolerance is not above 0, or there is no source.
    """

    name: str
    of: Of
    value: float
    source: str
    bound: Literal["at_least", "at_most"] | None = None
    tolerance: float = 0.05

    def __post_init__(self) -> None:
        _check.positive(f"value of observation {self.name!r}", self.value)
        _check.positive(f"tolerance of observation {self.name!r}", self.tolerance)
        if not self.source:
            raise ConfigError(f"source of observation {self.name!r} must say where it comes from, was empty")
        if self.bound not in (None, "at_least", "at_most"):
            raise ConfigError(
                f"bound of observation {self.name!r} must be at_least or at_most, was {self.bound!r}"
            )
