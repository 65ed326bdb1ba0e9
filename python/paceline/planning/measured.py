"""What replays at one rate, or on one cluster, say about an objective."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from paceline import _check
from paceline.errors import ConfigError
from paceline.objectives import SLO
from paceline.result import Result
from paceline.result.outcome import Sketch
from paceline.trace import Trace

__all__ = [
    "RULES",
    "Criterion",
    "Judge",
    "Judged",
    "Measured",
    "Rule",
    "Sample",
    "judged_after",
    "percentile_of",
    "row_of",
    "sample_of",
    "skipped_of",
    "throughput_of",
]

Rule: TypeAlias = Literal["joint", "marginal"]

RULES: Final = ("joint", "marginal")

Judged: TypeAlias = slice | npt.NDArray[np.bool_]
"""Which requests of a replay are judged."""

_COLUMN_OF: Final = {"ttft": "ttft", "tpot": "tpot", "e2e": "e2e", "itl": "max_itl"}


@dataclass(frozen=True, slots=True)
class Sample:
    """What one replay contributes.

    Attributes
    ----------
    met, requests, rejected
        Numbers of requests.
    latencies
        Seconds of each request by metric, infinite if it was rejected or did not finish.
    finished
        The requests that finished in the whole replay.
    seconds
        From the first arrival to the end of the last request.
    joules
        Of all GPUs; None if their energy is not known.
    gaps
        Between the tokens of all requests of the replay; None if they are not judged.
    lost_gaps
        Gaps of the requests that did not finish: one for each output token after the first.
    """

    met: int
    requests: int
    rejected: int
    latencies: dict[str, npt.NDArray[np.float64]]
    finished: int
    seconds: float
    joules: float | None
    gaps: Sketch | None = None
    lost_gaps: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """An objective held against one or more replays together.

    Attributes
    ----------
    requests, rejected
        Numbers of requests.
    attainment
        The share of the requests that finished within all bounds.
    latencies
        The percentile of each latency at the target, in seconds, over all requests; infinite if too few
        finished.
    margin
        How far from failing: 0 or more passes under the joint rule, above 0 under the marginal rule.
    passes
        Whether the rule holds.
    rate
        Requests that finish in a second of the whole replays.
    watts
        The mean power of all GPUs; None if it is not known.
    """

    requests: int
    rejected: int
    attainment: float
    latencies: dict[str, float]
    margin: float
    passes: bool
    rate: float
    watts: float | None


class Judge(Protocol):
    """When replays meet an objective."""

    def sample(self, result: Result, judged: Judged = ...) -> Sample:
        """Reduce a replay to what is judged: the given ones of its requests, in the order of the trace."""
        ...

    def judge(self, samples: Sequence[Sample]) -> Measured:
        """Hold the objective against the requests of all samples together."""
        ...

    def row(self, measured: Measured) -> dict[str, Any]:
        """Return a row of a table."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """When replays meet an objective.

    Parameters
    ----------
    slo
        The bounds.
    target
        The share of requests, above 0 and at most 1.
    rule
        ``"joint"``: the share of all requests that finish within every bound is at least the target.
        ``"marginal"``: for each bound, the percentile of its latency at the target is below the bound.

    Raises
    ------
    ConfigError
        If the target is no share, or the rule is unknown.
    """

    slo: SLO
    target: float = 0.90
    rule: Rule = "joint"

    def __post_init__(self) -> None:
        _check.fraction("target", self.target)
        _check.one_of("rule", self.rule, RULES)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The latencies that curves show: TTFT and TPOT, and the others that the objective bounds."""
        return tuple(name for name in _COLUMN_OF if name in ("ttft", "tpot") or name in self.slo.bounds())

    def column(self, metric: str) -> str:
        """Return the name of the column with a latency's percentile, such as ``p90_ttft``."""
        return f"p{100 * self.target:.10g}_{metric}"

    def sample(self, result: Result, judged: Judged = slice(None)) -> Sample:
        """Reduce a replay to what is judged: the given ones of its requests, in the order of the trace."""
        met = int(result.met(self.slo).to_numpy()[judged].sum())
        return sample_of(result, judged, {metric: _COLUMN_OF[metric] for metric in self.metrics}, met=met)

    def judge(self, samples: Sequence[Sample]) -> Measured:
        """Hold the objective against the requests of all samples together."""
        requests = sum(sample.requests for sample in samples)
        attainment = sum(sample.met for sample in samples) / requests
        latencies = {
            metric: percentile_of([sample.latencies[metric] for sample in samples], self.target)
            for metric in self.metrics
        }
        if self.rule == "joint":
            margin, passes = attainment - self.target, attainment >= self.target
        else:
            bounds = self.slo.bounds()
            margin = min((bound - latencies[name]) / bound for name, bound in bounds.items())
            passes = all(latencies[name] < bound for name, bound in bounds.items())
        return Measured(
            requests=requests,
            rejected=sum(sample.rejected for sample in samples),
            attainment=attainment,
            latencies=latencies,
            margin=margin,
            passes=passes,
            **throughput_of(samples),
        )

    def row(self, measured: Measured) -> dict[str, Any]:
        """Return a row of a table."""
        return row_of(measured, {self.column(name): value for name, value in measured.latencies.items()})


def sample_of(
    result: Result, judged: Judged, columns: Mapping[str, str], *, met: int | None = None
) -> Sample:
    """Reduce a replay to what is judged.

    Parameters
    ----------
    result
        The replay.
    judged
        Which of its requests.
    columns
        The columns of the latencies, by metric.
    met
        How many met the objective; None: those that finished.
    """
    status = result.column("status").cast(pl.String).to_numpy()[judged]
    finished = status == "finished"
    latencies = {}
    for metric, column in columns.items():
        # Null for a finished request of one token: no gap, which DistServe's evaluation counts as 0.
        values = result.column(column).fill_null(0.0).to_numpy()[judged]
        latencies[metric] = np.where(finished, values, np.inf)
    totals = result.totals()
    return Sample(
        met=int(finished.sum()) if met is None else met,
        requests=len(status),
        rejected=int((status == "rejected").sum()),
        latencies=latencies,
        finished=totals.finished,
        seconds=totals.makespan_s,
        joules=totals.energy_j,
    )


def row_of(measured: Measured, latencies: Mapping[str, float]) -> dict[str, Any]:
    """Return a row of a table, with latencies by column."""
    return {
        "attainment": measured.attainment,
        "margin": measured.margin,
        **latencies,
        "requests": measured.requests,
        "rejected": measured.rejected,
        "passes": measured.passes,
    }


def throughput_of(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return the rate and the mean power of replays together."""
    seconds = sum(sample.seconds for sample in samples)
    joules = [sample.joules for sample in samples if sample.joules is not None]
    known = len(joules) == len(samples) and seconds > 0
    return {
        "rate": sum(sample.finished for sample in samples) / seconds if seconds > 0 else 0.0,
        "watts": sum(joules) / seconds if known else None,
    }


def judged_after(result: Result, warmup_s: float) -> Judged:
    """Return which requests of a closed loop are judged: those that are sent after the warm-up, or never."""
    if warmup_s == 0:
        return slice(None)
    sent = result.column("arrival").to_numpy()
    lost = (result.column("status").cast(pl.String) == "not_arrived").to_numpy()
    judged: npt.NDArray[np.bool_] = (sent >= warmup_s) | lost
    if not judged.any():
        raise ConfigError(
            f"warmup_s must end before the last request is sent, at {np.nanmax(sent)} s, was {warmup_s}"
        )
    return judged


def skipped_of(trace: Trace, warmup_s: float, what: str) -> int:
    """Return how many requests arrive before the end of the warm-up.

    Parameters
    ----------
    trace
        The trace.
    warmup_s
        Seconds of its clock.
    what
        The function, for errors.

    Raises
    ------
    ConfigError
        If all do, so that none would be judged.
    """
    _check.seconds(f"warmup_s of {what}", warmup_s)
    arrivals = trace.frame.get_column("arrival")
    skipped = int((arrivals < warmup_s).sum())
    if skipped == len(trace):
        raise ConfigError(
            f"warmup_s of {what} must end before the last arrival of {trace.name} at {arrivals[-1]} s, was "
            f"{warmup_s}"
        )
    return skipped


def percentile_of(parts: Sequence[npt.NDArray[np.float64]], share: float) -> float:
    """Return a percentile of all parts, linear between ranks as numpy's, also where values are infinite."""
    values = np.concatenate(parts)
    place = share * (len(values) - 1)
    low, high = math.floor(place), math.ceil(place)
    below, above = np.partition(values, (low, high))[[low, high]]
    if math.isinf(above):
        return float(below) if place == low else math.inf
    return float(np.quantile(values, share))
