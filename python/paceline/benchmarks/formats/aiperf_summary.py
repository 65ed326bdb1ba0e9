"""AIPerf's ``profile_export_aiperf.json``: its statistics, counts and configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from paceline.benchmarks.documents import count_if, number_if
from paceline.benchmarks.formats.stated import stated_of
from paceline.benchmarks.model import BenchmarkLoad, BenchmarkTotals

__all__ = [
    "PER_SECOND",
    "is_summary",
    "load_of_summary",
    "model_of_summary",
    "stated_of_summary",
    "totals_of_summary",
]

_STATED: Final = {
    "ttft": "time_to_first_token",
    "itl": "inter_token_latency",
    "icl": "inter_chunk_latency",
    "e2e": "request_latency",
}
PER_SECOND: Final = {"ns": 1e9, "us": 1e6, "µs": 1e6, "ms": 1e3, "s": 1.0, "sec": 1.0, "seconds": 1.0}
"""How many of a unit a second has."""


def is_summary(body: Mapping[str, Any]) -> bool:
    """Return whether an object is AIPerf's summary."""
    return "aiperf_version" in body or ("input_config" in body and "request_latency" in body)


def _average(body: Mapping[str, Any], name: str) -> float | None:
    return stated_of(body.get(name)).get("mean")


def totals_of_summary(body: Mapping[str, Any]) -> BenchmarkTotals:
    """Return the counts and rates of a summary."""

    def whole(name: str) -> int | None:
        value = _average(body, name)
        return None if value is None else int(value)

    return BenchmarkTotals(
        duration_s=_average(body, "benchmark_duration"),
        completed=whole("request_count"),
        failed=whole("error_request_count"),
        input_tokens=whole("total_isl"),
        output_tokens=whole("total_osl") or whole("total_output_tokens"),
        request_throughput=_average(body, "request_throughput"),
        output_throughput=_average(body, "output_token_throughput"),
        total_throughput=_average(body, "total_token_throughput"),
    )


def stated_of_summary(body: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the statistics of a summary, in seconds."""
    found = {}
    for ours, theirs in _STATED.items():
        table = body.get(theirs)
        unit = table.get("unit") if isinstance(table, Mapping) else None
        statistics = stated_of(table, per_second=PER_SECOND.get(str(unit or "ms"), 1e3))
        if statistics:
            found[ours] = statistics
    return found


def _config(body: Mapping[str, Any], *path: str) -> Any:  # noqa: ANN401 - any JSON
    found: Any = body.get("input_config")
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def model_of_summary(body: Mapping[str, Any]) -> str | None:
    """Return the first model that a summary names."""
    names = _config(body, "endpoint", "model_names")
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None


def load_of_summary(body: Mapping[str, Any], where: str) -> BenchmarkLoad:
    """Return the rate and the limit that a summary's configuration asks for.

    Raises
    ------
    TraceError
        If one is no number.
    """
    rate = number_if(_config(body, "loadgen", "request_rate"), f"{where}: request_rate")
    most = count_if(_config(body, "loadgen", "concurrency"), f"{where}: concurrency")
    return BenchmarkLoad(rate=rate if rate is not None and rate > 0 else None, max_concurrency=most)
