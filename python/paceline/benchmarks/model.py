"""A benchmark that a client ran against a real server, in one form for all clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import polars as pl

from paceline._arguments import typed_fields
from paceline.benchmarks.definitions import Definition, Served, definitions_of
from paceline.errors import TraceError

if TYPE_CHECKING:
    from paceline.validation.comparison import Statistics

__all__ = ["REQUESTS_SCHEMA", "BenchmarkLoad", "BenchmarkResult", "BenchmarkTotals"]

REQUESTS_SCHEMA: Final[dict[str, pl.DataType]] = {
    "request_id": pl.String(),
    "session": pl.String(),
    "scheduled": pl.Float64(),
    "sent": pl.Float64(),
    "prompt_tokens": pl.Int64(),
    "output_tokens": pl.Int64(),
    "measured_ttft": pl.Float64(),
    "measured_tpot": pl.Float64(),
    "measured_itl": pl.Float64(),
    "measured_e2e": pl.Float64(),
    "last_token": pl.Float64(),
    "measured_client_queueing": pl.Float64(),
    "gaps": pl.List(pl.Float64()),
    "failure": pl.String(),
}
"""Names and types of the columns of `BenchmarkResult.requests`, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(TraceError)
class BenchmarkLoad:
    """The load that a client was told to put on a server; None where the file does not say.

    Parameters
    ----------
    rate
        Requests a second; ``inf``: all at once, as far as the limit allows.
    burstiness
        The shape of the gamma distribution of the times between requests; 1 is Poisson.
    max_concurrency
        The most requests in flight.
    ramp
        How the rate rises, in the file's words.
    """

    rate: float | None = None
    burstiness: float | None = None
    max_concurrency: int | None = None
    ramp: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(TraceError)
class BenchmarkTotals:
    """Counts and rates as the file states them; None where it does not.

    Parameters
    ----------
    duration_s
        Seconds of the benchmark, which its rates are over.
    completed, failed, incomplete
        Requests that got their answer, that failed, and that were cut short at the end or cancelled.
    input_tokens, output_tokens
        Tokens of the completed requests.
    request_throughput, output_throughput, total_throughput
        Completed requests, their output tokens, and all their tokens, a second.
    """

    duration_s: float | None = None
    completed: int | None = None
    failed: int | None = None
    incomplete: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    request_throughput: float | None = None
    output_throughput: float | None = None
    total_throughput: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
@typed_fields(TraceError)
class BenchmarkResult:
    """The result of one run of a benchmark client.

    Parameters
    ----------
    name
        The file, and which of its runs.
    tool
        ``vllm``, ``sglang``, ``aiperf``, ``guidellm``, ``inference-perf`` or ``llm-d``.
    version
        The tool's version; None if the file does not say.
    model
        The model's name as the client knew it; None if the file does not say.
    requests
        A row a request, by when it was sent; no rows if the file has totals only. ``scheduled`` (when it
        was to be sent) and ``sent`` are seconds from the first one, or null. ``measured_tpot`` is always
        ``(e2e - ttft) / (output tokens - 1)`` and ``measured_itl`` the mean of the request's gaps, whatever
        the tool means by these words. ``last_token`` is the time from the sending to the last token; ``e2e``
        where the file does not tell them apart. ``gaps`` are the seconds between its chunks, which hold
        several tokens each with speculative decoding. ``failure`` says why a request failed; null if it
        completed.
    sampled
        Whether the requests are only some of those that were made.
    load
        What the client was told to do.
    totals
        Counts and rates as the file states them.
    stated
        The statistics that the file states, in seconds, by metric and then ``mean``, ``median``, ``p90``,
        ``p95`` and ``p99``, as far as it has them; each under the tool's own definition.
    lacks
        What the file does not have and a comparison needs.
    notes
        Remarks on the file.

    Notes
    -----
    `definitions` says what the tool means by each metric.
    """

    name: str
    tool: str
    version: str | None = None
    model: str | None = None
    requests: pl.DataFrame
    sampled: bool = False
    load: BenchmarkLoad = BenchmarkLoad()
    totals: BenchmarkTotals = BenchmarkTotals()
    stated: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def definitions(self) -> dict[str, Definition]:
        """The tool's own definition of each metric that it reports."""
        return definitions_of(self.tool)

    @property
    def completed(self) -> pl.DataFrame:
        """The rows of the requests that completed."""
        return self.requests.filter(pl.col("failure").is_null())

    @property
    def failures(self) -> dict[str, int]:
        """How many of the rows failed, by what the file says of the reason."""
        failed = self.requests.get_column("failure").drop_nulls()
        counted = failed.value_counts(sort=True).rows()
        return {str(reason): int(count) for reason, count in sorted(counted)}

    def served(self) -> Served | None:
        """Return the latencies of the completed requests; None if the file has not got them by request."""
        rows = self.completed
        if rows.is_empty():
            return None
        gaps = rows.get_column("gaps")
        pooled = None if gaps.null_count() else gaps.explode(empty_as_null=False).to_numpy()
        return Served(
            ttft=rows.get_column("measured_ttft").to_numpy(),
            e2e=rows.get_column("measured_e2e").to_numpy(),
            last=rows.get_column("last_token").to_numpy(),
            output_tokens=rows.get_column("output_tokens").to_numpy(),
            gaps=pooled,
        )

    def statistics(self) -> dict[str, Statistics]:
        """Return mean, median, P90, P95 and P99 of each metric as the tool defines it, in seconds.

        They are computed from the requests where the file has all of them, and are the file's otherwise.
        """
        served = None if self.sampled else self.served()
        found: dict[str, Statistics] = {}
        for metric, definition in self.definitions.items():
            computed = None if served is None else definition.statistics(served)
            chosen = computed or self.stated.get(metric)
            if chosen:
                found[metric] = chosen
        return found
