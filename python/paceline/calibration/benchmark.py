"""A benchmark client's result as an observation: its requests are replayed with each candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline.benchmarks.clients import Replayed, replayed
from paceline.benchmarks.model import BenchmarkResult
from paceline.benchmarks.reading import read_bench
from paceline.benchmarks.served import predicted_of
from paceline.deployment import Cluster, Instance
from paceline.errors import ConfigError
from paceline.policies.vllm import vllm
from paceline.replaying import replay

if TYPE_CHECKING:
    from paceline.calibration.candidate import Candidate
    from paceline.validation.comparison import Statistics

__all__ = ["Benchmark", "observed_tables"]

_STATISTICS: Final = ("mean", "median", "p90", "p95", "p99")


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Benchmark:
    """A statistic of a latency that a benchmark client measured.

    The client's requests are replayed as `paceline.compare_bench` does, on one instance under vLLM's
    scheduler, and the statistic is the client's own.

    Parameters
    ----------
    file
        A result that has the requests.
    metric
        Such as ``"tpot"``, as the client defines it.
    statistic
        ``"mean"``, ``"median"``, ``"p90"``, ``"p95"`` or ``"p99"``.
    run
        Which run of a file with several.
    num_blocks
        KV blocks of the server; None: as memory allows.
    max_num_seqs, max_num_batched_tokens
        The server's limits.
    async_scheduling
        Whether it schedules asynchronously, as vLLM does by default from 0.14 on.
    frontend_s
        Seconds from the client to the scheduler.
    """

    file: str
    metric: str
    statistic: str = "mean"
    run: int | None = None
    num_blocks: int | None = None
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    async_scheduling: bool = True
    frontend_s: float = 0.0

    def __post_init__(self) -> None:
        _check.one_of("statistic of a Benchmark", self.statistic, _STATISTICS)
        for name in ("max_num_seqs", "max_num_batched_tokens"):
            _check.count(f"{name} of a Benchmark", getattr(self, name))

    @typed()
    def predict(self, candidate: Candidate) -> float:
        """Return a candidate's prediction.

        Raises
        ------
        ConfigError
            If a request cannot be served, or the client does not report the metric.
        """
        # What differs in the statistic alone shares a replay.
        key = replace(self, metric="", statistic="mean")
        found = candidate.replayed.get(key)
        if found is None:
            found = candidate.replayed[key] = self._replay(candidate)
        return _statistic(found, self.metric, self.statistic, self.file)

    def observed(self) -> float:
        """Return the measured statistic.

        Raises
        ------
        ConfigError
            If the file does not have it.
        """
        measured = read_bench(self.file, run=self.run)
        return _statistic(measured.statistics(), self.metric, self.statistic, self.file)

    def _replay(self, candidate: Candidate) -> Mapping[str, Statistics]:
        measured, how = self._requests(candidate)
        instance = Instance(
            model=candidate.model,
            gpu=candidate.gpu,
            tensor_parallel=candidate.tensor_parallel,
            cost=candidate.roofline,
            num_blocks=self.num_blocks,
            max_model_len="auto",
        )
        policy = vllm(
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            async_scheduling=self.async_scheduling,
        )
        cluster = Cluster([instance], frontend_s=self.frontend_s)
        result = replay(how.trace, cluster, policy, clients=how.clients)
        unfinished = len(result) - result.totals().finished
        if unfinished:
            raise ConfigError(
                f"{measured.name}: the instance must serve every request, {unfinished:,} were not finished"
            )
        return predicted_of(result, measured)

    def _requests(self, candidate: Candidate) -> tuple[BenchmarkResult, Replayed]:
        """Return the file's requests, read once for all candidates."""
        key = (self.file, self.run)
        if key not in candidate.benchmarks:
            measured = read_bench(self.file, run=self.run)
            candidate.benchmarks[key] = (measured, replayed(measured))
        found: tuple[BenchmarkResult, Replayed] = candidate.benchmarks[key]
        return found


def _statistic(found: Mapping[str, Statistics], metric: str, statistic: str, file: str) -> float:
    value = found.get(metric, {}).get(statistic)
    if value is None:
        has = ", ".join(found)
        raise ConfigError(f"metric of {file} must be one of {has} with its {statistic}, was {metric!r}")
    return value


def observed_tables(path: Path) -> tuple[str | None, list[dict[str, Any]]]:
    """Return the model of a benchmark's file, and an observation for each mean latency of each run.

    Raises
    ------
    TraceError
        If it is no such file.
    """
    from paceline.benchmarks.reading import read_benches

    runs = read_benches(path)
    tables = []
    for at, measured in enumerate(runs):
        for metric, statistics in measured.statistics().items():
            # E2E follows from the others.
            if metric in ("ttft", "tpot", "itl") and "mean" in statistics:
                place = f", run {at}" if len(runs) > 1 else ""
                tables.append(
                    {
                        "kind": "benchmark",
                        "name": f"mean {metric.upper()} of {path.name}{place}",
                        "file": path.name,
                        "run": at,
                        "metric": metric,
                        "source": f"{measured.tool} {measured.version or ''}".strip(),
                    }
                )
    return runs[0].model, tables
