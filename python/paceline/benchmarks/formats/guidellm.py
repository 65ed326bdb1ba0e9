"""Results of guidellm: ``benchmarks.json`` or ``benchmarks.yaml``, a run for each of its benchmarks.

guidellm 0.7 (``benchmark/schemas/report.py``, ``schemas/base/request_stats.py``, ``info.py``). Moments are
seconds of the epoch. The requests are a sample if the report was told so, and then fewer than were made.
The names of version 1 of the report (``first_iteration``, ``last_iteration``) are understood, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from paceline.benchmarks.documents import Document, converted, count_if, number_if
from paceline.benchmarks.formats.stated import stated_of
from paceline.benchmarks.model import BenchmarkLoad, BenchmarkResult, BenchmarkTotals
from paceline.benchmarks.rows import known, no_requests, requests_frame

__all__ = ["is_guidellm", "read_guidellm"]

Number = int | float

_STATED: Final = {
    "ttft": ("time_to_first_token_ms", 1000.0),
    "tpot": ("time_per_output_token_ms", 1000.0),
    "itl": ("inter_token_latency_ms", 1000.0),
    "e2e": ("request_latency", 1.0),
}


class _Timings(msgspec.Struct):
    targeted_start: Number | None = None
    request_start: Number | None = None
    first_iteration: Number | None = None
    last_iteration: Number | None = None
    first_token_iteration: Number | None = None
    last_token_iteration: Number | None = None
    request_end: Number | None = None
    token_iterations: int | None = None


class _Info(msgspec.Struct):
    timings: _Timings = msgspec.field(default_factory=_Timings)
    conversation_id: str | None = None
    error: str | None = None


class _Tokens(msgspec.Struct):
    text_tokens: Number | None = None
    total_tokens: Number | None = None

    def count(self) -> Number | None:
        """Return the tokens; those of the text where no total is given."""
        return self.text_tokens if self.total_tokens is None else self.total_tokens


class _Request(msgspec.Struct):
    request_id: str | None = None
    info: _Info = msgspec.field(default_factory=_Info)
    input_metrics: _Tokens = msgspec.field(default_factory=_Tokens)
    output_metrics: _Tokens = msgspec.field(default_factory=_Tokens)


class _Requests(msgspec.Struct):
    successful: list[_Request] | None = None
    incomplete: list[_Request] | None = None
    errored: list[_Request] | None = None


class _Made(msgspec.Struct):
    successful: int | None = None
    incomplete: int | None = None
    errored: int | None = None


class _SchedulerMetrics(msgspec.Struct):
    measure_start_time: Number | None = None
    measure_end_time: Number | None = None
    requests_made: _Made = msgspec.field(default_factory=_Made)


class _Benchmark(msgspec.Struct):
    requests: _Requests = msgspec.field(default_factory=_Requests)
    scheduler_metrics: _SchedulerMetrics = msgspec.field(default_factory=_SchedulerMetrics)
    metrics: dict[str, Any] = msgspec.field(default_factory=dict)
    config: dict[str, Any] = msgspec.field(default_factory=dict)
    duration: Number | None = None


class _Report(msgspec.Struct):
    benchmarks: list[_Benchmark]
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


def is_guidellm(body: Mapping[str, Any]) -> bool:
    """Return whether an object is a report of guidellm."""
    return isinstance(body.get("benchmarks"), list)


def read_guidellm(document: Document) -> list[BenchmarkResult]:
    """Return the results of a report.

    Raises
    ------
    TraceError
        If a field is of another type, or a number cannot be one of a request.
    """
    report = converted(document.body, _Report, document.where)
    version = report.metadata.get("guidellm_version")
    many = len(report.benchmarks) > 1
    return [
        _result(each, f"{document.where}, benchmark {at}" if many else document.where, version)
        for at, each in enumerate(report.benchmarks)
    ]


def _result(benchmark: _Benchmark, where: str, version: object) -> BenchmarkResult:
    made, lacks, notes = benchmark.scheduler_metrics.requests_made, [], []
    requests = _requests(benchmark.requests, where)
    completed = requests.get_column("failure").null_count()
    sampled = made.successful is not None and 0 < completed < made.successful
    if not completed:
        requests = no_requests()
        lacks += ["lengths and latencies of requests", "when requests were sent"]
    elif sampled:
        lacks.append(f"all requests: {completed:,} of {made.successful:,} were kept as a sample")
        notes.append("the statistics are the file's, which are of all requests")
    return BenchmarkResult(
        name=where,
        tool="guidellm",
        version=version if isinstance(version, str) else None,
        model=_model(benchmark.config),
        requests=requests,
        sampled=sampled,
        load=_load(benchmark.config, where),
        totals=_totals(benchmark, made),
        stated=_stated(benchmark.metrics),
        lacks=tuple(lacks),
        notes=tuple(notes),
    )


def _requests(kept: _Requests, where: str) -> Any:  # noqa: ANN401 - a frame
    columns: dict[str, list[Any]] = {}
    groups = (("", kept.successful), ("incomplete", kept.incomplete), ("errored", kept.errored))
    for status, requests in groups:
        for request in requests or ():
            for name, value in _row(request, status).items():
                columns.setdefault(name, []).append(value)
    return requests_frame(columns, where) if columns else no_requests()


def _row(request: _Request, status: str) -> dict[str, Any]:
    of = request.info.timings
    outputs = request.output_metrics.count() or of.token_iterations
    first = of.first_token_iteration if of.first_token_iteration is not None else of.first_iteration
    last = of.last_token_iteration if of.last_token_iteration is not None else of.last_iteration
    start = of.request_start
    end = last if of.request_end is None else of.request_end
    failure = (request.info.error or status) if status else None
    if not status and (start is None or end is None or not outputs or not request.input_metrics.count()):
        failure = "no times or no tokens"
    return {
        "request_id": request.request_id,
        "session": request.info.conversation_id,
        "scheduled": of.targeted_start,
        "sent": start,
        "prompt_tokens": request.input_metrics.count(),
        "output_tokens": outputs,
        "measured_ttft": None if start is None or first is None else first - start,
        "measured_e2e": None if start is None or end is None else end - start,
        "last_token": None if start is None or end is None else (end if last is None else last) - start,
        "failure": failure,
    }


def _stated(metrics: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    found = {}
    for ours, (theirs, per_second) in _STATED.items():
        table = _successful(metrics, theirs)
        quantiles = table.get("percentiles")
        merged = {**table, **(quantiles if isinstance(quantiles, Mapping) else {})}
        statistics = stated_of(merged, per_second=per_second)
        if statistics:
            found[ours] = statistics
    return found


def _successful(metrics: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = metrics.get(name)
    found = table.get("successful") if isinstance(table, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _totals(benchmark: _Benchmark, made: _Made) -> BenchmarkTotals:
    def mean(name: str) -> float | None:
        return stated_of(_successful(benchmark.metrics, name)).get("mean")

    def total(name: str) -> int | None:
        value = _successful(benchmark.metrics, name).get("total_sum")
        number = known(value) if isinstance(value, int | float) else None
        return None if number is None else int(number)

    times = benchmark.scheduler_metrics
    span = known(benchmark.duration)
    if span is None and times.measure_start_time is not None and times.measure_end_time is not None:
        span = known(times.measure_end_time - times.measure_start_time)
    return BenchmarkTotals(
        duration_s=span,
        completed=made.successful,
        failed=made.errored,
        incomplete=made.incomplete,
        input_tokens=total("prompt_token_count"),
        output_tokens=total("output_token_count"),
        request_throughput=mean("requests_per_second"),
        output_throughput=mean("output_tokens_per_second"),
        total_throughput=mean("tokens_per_second"),
    )


def _model(config: Mapping[str, Any]) -> str | None:
    backend = config.get("backend")
    for table in (backend, config):
        model = table.get("model") if isinstance(table, Mapping) else None
        if isinstance(model, str):
            return model
    return None


def _load(config: Mapping[str, Any], where: str) -> BenchmarkLoad:
    strategy = config.get("strategy")
    table = strategy if isinstance(strategy, Mapping) else {}
    kind = table.get("type_") or table.get("kind")
    rate = number_if(table.get("rate"), f"{where}: rate")
    most = count_if(table.get("max_concurrency"), f"{where}: max_concurrency")
    if kind == "synchronous":
        most = 1
    elif kind == "concurrent":
        most = count_if(table.get("streams"), f"{where}: streams") or most
    return BenchmarkLoad(
        rate=rate if rate is not None and rate > 0 else None,
        burstiness=1.0 if kind == "poisson" else None,
        max_concurrency=most,
    )
