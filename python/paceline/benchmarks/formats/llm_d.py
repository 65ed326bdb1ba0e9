"""llm-d's benchmark report, versions 0.2 and 0.2.1: statistics of one run, of any tool.

llm-d/llm-d-benchmark 566a759 (``benchmark_report/schema_v0_2.py``, ``schema_v0_2_1.py``). It has no
requests. The report calls TPOT and ITL what the tool called them; its schema warns of that, and so does a
note.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from paceline.benchmarks.documents import Document, converted
from paceline.benchmarks.formats.stated import stated_of
from paceline.benchmarks.model import BenchmarkLoad, BenchmarkResult, BenchmarkTotals
from paceline.benchmarks.rows import known, no_requests

__all__ = ["TOOLS", "is_report", "read_report"]

_STATED: Final = {
    "ttft": "time_to_first_token",
    "tpot": "time_per_output_token",
    "itl": "inter_token_latency",
    "e2e": "request_latency",
    "ntpot": "normalized_time_per_output_token",
}
TOOLS: Final = {
    "vllm-benchmark": "vllm",
    "inference-perf": "inference-perf",
    "guidellm": "guidellm",
    "aiperf": "aiperf",
}
"""Our name of each tool by the report's."""

_MS: Final = ("ms", "ms/token")


class _Requests(msgspec.Struct):
    total: int | None = None
    failures: int | None = None
    incomplete: int | None = None


class _Aggregate(msgspec.Struct):
    requests: _Requests = msgspec.field(default_factory=_Requests)
    latency: dict[str, Any] = msgspec.field(default_factory=dict)
    throughput: dict[str, Any] = msgspec.field(default_factory=dict)


class _Performance(msgspec.Struct):
    aggregate: _Aggregate = msgspec.field(default_factory=_Aggregate)


class _Results(msgspec.Struct):
    request_performance: _Performance = msgspec.field(default_factory=_Performance)


class _Standardized(msgspec.Struct):
    tool: str | None = None
    tool_version: str | None = None
    rate_qps: int | float | None = None
    concurrency: int | float | None = None


class _Load(msgspec.Struct):
    standardized: _Standardized = msgspec.field(default_factory=_Standardized)


class _Scenario(msgspec.Struct):
    stack: list[dict[str, Any]] | None = None
    load: _Load | None = None


class _Report(msgspec.Struct):
    version: str
    results: _Results
    scenario: _Scenario | None = None


def is_report(body: Mapping[str, Any]) -> bool:
    """Return whether an object is a report of llm-d."""
    return (
        isinstance(body.get("results"), Mapping)
        and isinstance(body.get("run"), Mapping)
        and "version" in body
    )


def read_report(document: Document) -> BenchmarkResult:
    """Return the result of a report.

    Raises
    ------
    TraceError
        If a field is of another type.
    """
    report = converted(document.body, _Report, document.where)
    scenario = report.scenario or _Scenario()
    load = (scenario.load or _Load()).standardized
    aggregate = report.results.request_performance.aggregate
    tool = TOOLS.get(load.tool or "", "llm-d")
    notes = []
    if tool == "llm-d":
        notes.append(
            "TPOT and ITL are taken as inference-perf defines them: the report names no tool that is known"
        )
    total, failures = aggregate.requests.total, aggregate.requests.failures or 0
    incomplete = aggregate.requests.incomplete or 0
    most = load.concurrency
    return BenchmarkResult(
        name=document.where,
        tool=tool,
        version=load.tool_version,
        model=_model(scenario.stack or []),
        requests=no_requests(),
        load=BenchmarkLoad(
            rate=known(load.rate_qps) if load.rate_qps and load.rate_qps > 0 else None,
            max_concurrency=int(most) if most and 1 <= most < 2**31 else None,
        ),
        totals=BenchmarkTotals(
            completed=None if total is None else max(total - failures - incomplete, 0),
            failed=aggregate.requests.failures,
            incomplete=aggregate.requests.incomplete,
            request_throughput=stated_of(aggregate.throughput.get("request_rate")).get("mean"),
            output_throughput=stated_of(aggregate.throughput.get("output_token_rate")).get("mean"),
            total_throughput=stated_of(aggregate.throughput.get("total_token_rate")).get("mean"),
        ),
        stated=_stated(aggregate.latency),
        lacks=("lengths and latencies of requests", "when requests were sent"),
        notes=tuple(notes),
    )


def _stated(latency: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    found = {}
    for ours, theirs in _STATED.items():
        table = latency.get(theirs)
        unit = table.get("units") if isinstance(table, Mapping) else None
        statistics = stated_of(table, per_second=1000.0 if unit in _MS else 1.0)
        if statistics:
            found[ours] = statistics
    return found


def _model(stack: list[dict[str, Any]]) -> str | None:
    for component in stack:
        standardized = component.get("standardized")
        model = standardized.get("model") if isinstance(standardized, Mapping) else None
        name = model.get("name") if isinstance(model, Mapping) else None
        if isinstance(name, str):
            return name
    return None
