"""`paceline.compare`: policies side by side on the same requests."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from paceline import _check
from paceline._arguments import typed
from paceline._cores import threads
from paceline._jobs import Heed, Jobs
from paceline.comparing.bootstrap import Draws, interval
from paceline.comparing.comparison import Comparison
from paceline.comparing.figures import Figure, columns_of, figures_of
from paceline.comparing.student import mean_interval
from paceline.deployment import Cluster
from paceline.errors import ConfigError
from paceline.objectives import SLO
from paceline.policy import Policy
from paceline.replaying import replay
from paceline.result import Result
from paceline.trace import Trace

__all__ = ["compare"]

Floats = NDArray[np.float64]
Columns = dict[str, Floats]
Interval = tuple[float, float, float]

_LEAST_BLOCKS: Final = 10


@typed()
def compare(
    trace: Trace | Sequence[Trace],
    cluster: Cluster,
    policies: Mapping[str, Policy],
    *,
    baseline: str | None = None,
    slo: SLO | None = None,
    warmup_s: float = 0.0,
    confidence: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
    until: float | None = None,
    workers: int | None = None,
    progress: Callable[[float, float], object] | None = None,
) -> Comparison:
    """Replay the same requests under several policies, and compare them with confidence intervals.

    With several traces, such as one for each seed, each is a replication: a figure is the mean of the
    traces' figures, and its interval that of Student's t over the traces. With one trace the interval is that
    of a bootstrap over blocks of consecutive requests, as many as the square root of their number: it says
    how far the figure depends on which requests happened to be in the trace, and not what another day's
    traffic would give. `Comparison.method` says which it was. Differences and ratios are of pairs: the same
    request under both policies, in the same draw or trace.

    Parameters
    ----------
    trace
        The requests, or several traces as replications.
    cluster
        The instances that serve them.
    policies
        Two or more policies by name.
    baseline
        The policy that the others are compared with; None: the first.
    slo
        Bounds, for the attainment.
    warmup_s
        Requests that arrive in the first so many seconds of a trace are replayed, but not judged: an empty
        cluster serves them. The result counts them.
    confidence
        Of the intervals, above 0 and below 1.
    draws
        Draws of the bootstrap.
    seed
        Of the draws.
    until
        As of `replay`.
    workers
        Replays at a time; None: one on each core. The result does not depend on it. Policies with rules that
        are Python functions are replayed one at a time, as these may keep state.
    progress
        Called about ten times a second with the replays done, those under way counted by their share, and
        their number.

    Returns
    -------
    Comparison
        The table, and the results.

    Raises
    ------
    ConfigError
        If an argument is out of range, or no request arrives after the warm-up.
    PacelineError
        As `replay` does; of several failed replays, the first in the order of policies and traces.

    Examples
    --------
    >>> import paceline
    >>> trace = paceline.synthesize("azure-conv", requests=400, rate=12.0, seed=1)
    >>> cluster = paceline.Cluster([paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")])
    >>> found = paceline.compare(
    ...     trace, cluster, {"vllm": paceline.policies.vllm(), "sarathi": paceline.policies.sarathi()})
    >>> found.method
    'bootstrap over 20 blocks of consecutive requests, 1000 draws'
    >>> found.table.filter(metric="tpot", figure="p99").height
    2
    """
    traces = [trace] if isinstance(trace, Trace) else list(trace)
    baseline = next(iter(policies), "") if baseline is None else baseline
    _check_arguments(traces, policies, baseline, warmup_s, confidence, draws, seed)
    jobs = [(name, index) for name in policies for index in range(len(traces))]
    at_a_time = 1 if any(policy.calls for policy in policies.values()) else threads(workers)

    def one(job: tuple[str, int], heed: Heed) -> Result:
        def report(at: Any) -> None:  # noqa: ANN401 - the engine's Progress
            heed(at.finished / max(at.total, 1))

        name, index = job
        heed(0.0)
        return replay(traces[index], cluster, policies[name], until=until, progress=report)

    def show(done: float) -> None:
        if progress is not None:
            progress(done, len(jobs))

    found = dict(zip(jobs, Jobs(jobs, one, workers=at_a_time).results(show), strict=True))
    results = {name: tuple(found[name, index] for index in range(len(traces))) for name in policies}
    judged = [each.frame["arrival"].to_numpy() >= warmup_s for each in traces]
    columns = {
        name: [columns_of(result, cut, slo) for result, cut in zip(of, judged, strict=True)]
        for name, of in results.items()
    }
    over = _Draws(columns, confidence, draws, seed) if len(traces) == 1 else _Traces(columns, confidence)
    rows = [
        {"policy": name, "metric": figure.metric, "figure": figure.name, **over.row(figure, name, baseline)}
        for figure in figures_of(slo)
        for name in policies
    ]
    return Comparison(
        table=pl.DataFrame(rows, schema=_SCHEMA).with_columns(pl.col(pl.Float64).fill_nan(None)),
        results=results,
        baseline=baseline,
        method=over.method,
        confidence=float(confidence),
        warmup_s=float(warmup_s),
        warmup_requests=tuple(int((~cut).sum()) for cut in judged),
        requests=tuple(int(cut.sum()) for cut in judged),
        slo=slo,
    )


_SCHEMA: Final = {
    **dict.fromkeys(("policy", "metric", "figure"), pl.String()),
    **dict.fromkeys(("value", "low", "high"), pl.Float64()),
    "count": pl.Int64(),
    **dict.fromkeys(
        ("difference", "difference_low", "difference_high", "ratio", "ratio_low", "ratio_high"), pl.Float64()
    ),
    "better": pl.Float64(),
    "pairs": pl.Int64(),
}


class _Intervals(ABC):
    """Figures and their intervals."""

    method: str

    def __init__(self, columns: Mapping[str, list[Columns]]) -> None:
        self._columns = columns

    def row(self, figure: Figure, name: str, baseline: str) -> dict[str, Any]:
        """Return the figure of a policy, and how it compares."""
        own = [of[figure.metric] for of in self._columns[name]]
        value, low, high = self.value(figure, own)
        row: dict[str, Any] = {"value": value, "low": low, "high": high, "count": _number(own)}
        if name == baseline:
            return row
        base = [of[figure.metric] for of in self._columns[baseline]]
        pairs = [_paired(*both) for both in zip(own, base, strict=True)]
        mine, other = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        for what, found in self.against(figure, mine, other).items():
            row |= dict(zip((what, f"{what}_low", f"{what}_high"), found, strict=True))
        ours, theirs = np.concatenate(mine), np.concatenate(other)
        there = ~np.isnan(ours)
        gain = (ours - theirs)[there] * (1 if figure.name == "share" else -1)
        better = float(np.mean((gain > 0) + 0.5 * (gain == 0))) if gain.size else math.nan
        return {**row, "better": better, "pairs": int(there.sum())}

    @abstractmethod
    def value(self, figure: Figure, own: list[Floats]) -> Interval:
        """Return a figure and the ends of its interval."""

    @abstractmethod
    def against(self, figure: Figure, mine: list[Floats], other: list[Floats]) -> dict[str, Interval]:
        """Return the difference and the ratio of two policies' figures, with the ends of their intervals."""


class _Draws(_Intervals):
    """Intervals from one trace, by drawing blocks of its requests."""

    def __init__(
        self, columns: Mapping[str, list[Columns]], confidence: float, draws: int, seed: int
    ) -> None:
        super().__init__(columns)
        requests = len(next(iter(columns.values()))[0]["ttft"])
        blocks = min(requests, max(_LEAST_BLOCKS, math.isqrt(requests)))
        self._confidence = confidence
        self._draws = Draws.of(requests, blocks=blocks, draws=draws, seed=seed)
        self.method = f"bootstrap over {blocks} blocks of consecutive requests, {draws} draws"

    def value(self, figure: Figure, own: list[Floats]) -> Interval:
        return (figure.of(own[0]), *interval(figure.drawn(self._draws, own[0]), self._confidence))

    def against(self, figure: Figure, mine: list[Floats], other: list[Floats]) -> dict[str, Interval]:
        values = figure.of(mine[0]), figure.of(other[0])
        drawn = figure.drawn(self._draws, mine[0]), figure.drawn(self._draws, other[0])
        return {
            "difference": (values[0] - values[1], *interval(drawn[0] - drawn[1], self._confidence)),
            "ratio": (_ratio(*values), *interval(_ratios(*drawn), self._confidence)),
        }


class _Traces(_Intervals):
    """Intervals from several traces, each a replication."""

    def __init__(self, columns: Mapping[str, list[Columns]], confidence: float) -> None:
        super().__init__(columns)
        self._confidence = confidence
        self.method = f"Student's t over {len(next(iter(columns.values())))} traces"

    def value(self, figure: Figure, own: list[Floats]) -> Interval:
        return self._interval(np.array([figure.of(values) for values in own]))

    def against(self, figure: Figure, mine: list[Floats], other: list[Floats]) -> dict[str, Interval]:
        ours, theirs = (np.array([figure.of(values) for values in of]) for of in (mine, other))
        return {
            "difference": self._interval(ours - theirs),
            "ratio": self._interval(_ratios(ours, theirs)),
        }

    def _interval(self, values: Floats) -> Interval:
        return mean_interval(values[np.isfinite(values)], self._confidence)


def _paired(own: Floats, base: Floats) -> tuple[Floats, Floats]:
    """Return two policies' values, both nan for a request for which either is."""
    lacking = np.isnan(own) | np.isnan(base)
    return np.where(lacking, math.nan, own), np.where(lacking, math.nan, base)


def _number(columns: list[Floats]) -> int:
    return sum(int((~np.isnan(values)).sum()) for values in columns)


def _ratio(own: float, base: float) -> float:
    return own / base if base else math.nan


def _ratios(own: Floats, base: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(base == 0, math.nan, own / base)


def _check_arguments(
    traces: list[Trace],
    policies: Mapping[str, Policy],
    baseline: str,
    warmup_s: float,
    confidence: float,
    draws: int,
    seed: int,
) -> None:
    if len(policies) < 2:
        raise ConfigError(f"policies of compare() must be two or more by name, were {list(policies)}")
    if baseline not in policies:
        raise ConfigError(f"baseline of compare() must be one of {', '.join(policies)}, was {baseline!r}")
    if not traces:
        raise ConfigError("trace of compare() must be a trace or a list of traces, was an empty list")
    _check.seconds("warmup_s of compare()", warmup_s)
    if not (_check.is_number(confidence) and 0 < confidence < 1):
        raise ConfigError(f"confidence of compare() must be above 0 and below 1, was {confidence}")
    _check.count("draws of compare()", draws, least=2)
    _check.count("seed of compare()", seed, least=0)
    for trace in traces:
        last = trace.frame["arrival"][-1]
        if last < warmup_s:
            raise ConfigError(
                f"warmup_s of compare() must end before the last arrival of {trace.name} at {last} s, was "
                f"{warmup_s}"
            )
