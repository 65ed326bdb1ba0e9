"""A benchmark's requests replayed, and its latencies measured beside predicted."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import polars as pl

from paceline._arguments import typed
from paceline.benchmarks.clients import Arrivals, replayed
from paceline.benchmarks.model import BenchmarkResult
from paceline.benchmarks.reading import read_bench
from paceline.benchmarks.served import predicted_of, rates_measured, rates_predicted
from paceline.concurrency import Concurrency
from paceline.deployment import Cluster
from paceline.errors import ConfigError
from paceline.policy import Policy
from paceline.replaying import replay
from paceline.result import Result
from paceline.validation.comparison import Comparison

if TYPE_CHECKING:
    from paceline._core import Progress

__all__ = ["STATISTICS", "BenchComparison", "compare_bench"]

STATISTICS: Final = ("mean", "median", "p90", "p99")
"""What is compared of a metric, in order."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BenchComparison:
    """A benchmark beside the replay of its requests.

    Parameters
    ----------
    measured
        The benchmark.
    result
        The replay; its `requests` have the measured columns beside the predicted ones.
    comparison
        Measured and predicted statistics, each under the benchmark's own definition: seconds, or a second for
        the two throughputs.
    clients
        The limit under which it was replayed; None: requests were sent as recorded.
    arrivals
        Where the arrivals come from, as of `paceline.benchmarks.Arrivals`.
    """

    measured: BenchmarkResult
    result: Result
    comparison: Comparison
    clients: Concurrency | None
    arrivals: Arrivals

    @property
    def frame(self) -> pl.DataFrame:
        """A row for each metric and statistic.

        Columns `metric`, `statistic`, `measured`, `predicted` (seconds; throughputs a second), `error`
        (relative, above 0 if the prediction is larger) and `definition`, the tool's own.
        """
        rows = [
            (
                metric,
                statistic,
                was,
                predicted,
                predicted / was - 1 if was else None,
                self._definition(metric),
            )
            for metric, table in self.comparison.measured.items()
            for statistic in STATISTICS
            if (was := table.get(statistic)) is not None
            and (predicted := self.comparison.predicted.get(metric, {}).get(statistic)) is not None
        ]
        schema: dict[str, Any] = {
            "metric": pl.String,
            "statistic": pl.String,
            **dict.fromkeys(("measured", "predicted", "error"), pl.Float64),
            "definition": pl.String,
        }
        return pl.DataFrame(rows, schema=schema, orient="row")

    def error(self, metric: str, statistic: str = "mean") -> float:
        """Return the relative error of a statistic: above 0 if the prediction is larger."""
        return self.comparison.error(metric, statistic)

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON can say it."""
        metrics: dict[str, dict[str, Any]] = {}
        for metric, statistic, was, predicted, error, _ in self.frame.rows():
            cell = {"measured": was, "predicted": predicted, "error": error}
            metrics.setdefault(metric, {})[statistic] = cell
        limit = self.clients
        return {
            "name": self.measured.name,
            "tool": self.measured.tool,
            "version": self.measured.version,
            "requests": len(self.result),
            "failed": sum(self.measured.failures.values()),
            "arrivals": self.arrivals,
            "clients": None if limit is None else {"most": limit.most, "gap_s": limit.gap_s},
            "metrics": metrics,
            "definitions": {metric: self._definition(metric) for metric in metrics},
            "lacks": list(self.measured.lacks),
            "notes": list(self.comparison.notes),
        }

    def _definition(self, metric: str) -> str:
        found = self.measured.definitions.get(metric)
        return "completed in the benchmark's duration" if found is None else found.text


@typed()
def compare_bench(
    measured: BenchmarkResult | str | os.PathLike[str],
    cluster: Cluster,
    policy: Policy | None = None,
    *,
    run: int | None = None,
    clients: Concurrency | Literal["auto"] | None = "auto",
    seed: int = 0,
    progress: Callable[[Progress], object] | None = None,
) -> BenchComparison:
    """Replay the requests of a benchmark, and compare latencies and throughput with what it measured.

    The requests are those that completed. They arrive when they were sent; or, if the client limited the
    requests in flight and was held back by that, under the same limit (`paceline.Concurrency`), with the time
    that this client took from an answer to the next request.

    Parameters
    ----------
    measured
        What `read_bench` returns, or its path.
    cluster
        What serves the requests; `frontend_s` of it is the time between the client and the scheduler.
    policy
        As of `paceline.replay`.
    run
        As of `read_bench`.
    clients
        A limit to replay under; None: as recorded; ``"auto"``: the file's limit if the client reached it, or
        the one that the send times show.
    seed
        Of the arrivals that are drawn where the file has none and a finite rate.
    progress
        As of `paceline.replay`.

    Returns
    -------
    BenchComparison
        Mean, median, P90 and P99 of TTFT, TPOT, ITL and E2E, each as the tool defines it, and throughput.

    Raises
    ------
    TraceError
        As of `read_bench`; or the file does not have the lengths of all requests.
    ConfigError
        If send times are asked for that the file does not have, or requests cannot be served.

    Examples
    --------
    What a cluster with steps of 11 ms would have measured, beside one with steps of 10 ms:

    >>> import paceline, pathlib, tempfile
    >>> trace = paceline.Trace.from_columns(arrival=[0, 1], prompt_tokens=[8, 8], output_tokens=[2, 4])
    >>> slow, fast = (
    ...     paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=step), num_blocks=9)])
    ...     for step in (0.011, 0.010)
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "result.json")
    ...     _ = paceline.write_bench(paceline.replay(trace, slow), file, format="vllm")
    ...     compared = paceline.compare_bench(file, fast)
    >>> round(compared.error("ttft"), 3), round(compared.error("tpot", "p99"), 3)
    (-0.091, -0.091)
    """
    if not isinstance(measured, BenchmarkResult):
        measured = read_bench(measured, run=run)
    how = replayed(measured, clients, seed=seed)
    result = replay(how.trace, cluster, policy, clients=how.clients, progress=progress)
    unfinished = len(result) - result.totals().finished
    if unfinished:
        reasons = ", ".join(sorted({str(reason) for reason in result.column("reason").drop_nulls()}))
        raise ConfigError(
            f"{measured.name}: the cluster must serve every request, {unfinished:,} were not finished"
            f"{f' ({reasons})' if reasons else ''}; the benchmark's server did"
        )
    comparison = Comparison(
        measured.name,
        {**measured.statistics(), **rates_measured(measured)},
        {**predicted_of(result, measured), **rates_predicted(result)},
        notes=_notes(measured, how.arrivals, how.clients),
    )
    return BenchComparison(
        measured=measured, result=result, comparison=comparison, clients=how.clients, arrivals=how.arrivals
    )


_WHENCE: Final[Mapping[Arrivals, str]] = {
    "recorded": "requests arrive when they were sent",
    "scheduled": "requests are ready when the client was to send them",
    "by-rate": "requests are ready at the mean times of the rate, as the file lacks the schedule",
    "at-once": "requests are ready at the start, or when the limit is first reached",
    "drawn": "arrivals are drawn from the rate, as the file has none: compare distributions, not requests",
}


def _notes(measured: BenchmarkResult, arrivals: Arrivals, clients: Concurrency | None) -> tuple[str, ...]:
    notes = [_WHENCE[arrivals]]
    if clients is not None:
        notes[0] += f", at most {clients.most:,} in flight, {1e3 * clients.gap_s:.3g} ms after an answer"
    failures = measured.failures
    if failures:
        words = ", ".join(f"{count:,} {reason}" for reason, count in failures.items())
        notes.append(f"requests that failed are not replayed: {words}")
    return (*notes, *measured.notes)
