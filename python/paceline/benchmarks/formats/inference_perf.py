"""Results of inference-perf: a folder of lifecycle metrics, a run for each stage.

kubernetes-sigs/inference-perf 370914f (``reportgen/base.py``, ``apis/base.py``):
``stage_N_lifecycle_metrics.json`` has statistics in seconds, ``per_request_lifecycle_metrics.json`` a list
of requests, with moments in seconds of a clock without an epoch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec

from paceline.benchmarks.documents import Document, converted, count_if
from paceline.benchmarks.formats.stated import stated_of
from paceline.benchmarks.model import BenchmarkLoad, BenchmarkResult, BenchmarkTotals
from paceline.benchmarks.rows import known, no_requests, requests_frame

__all__ = ["PER_REQUEST", "STAGE", "is_requests", "is_stage", "read_inference_perf"]

PER_REQUEST: Final = "per_request_lifecycle_metrics.json"
STAGE: Final = re.compile(r"stage_(\d{1,9})_lifecycle_metrics\.json")

Number = int | float

_STATED: Final = {
    "ttft": "time_to_first_token",
    "tpot": "time_per_output_token",
    "itl": "inter_token_latency",
    "e2e": "request_latency",
    "ntpot": "normalized_time_per_output_token",
}


class _Response(msgspec.Struct):
    output_tokens: Number | None = None
    output_token_times: list[Number] | None = None


class _Text(msgspec.Struct):
    input_tokens: Number | None = None


class _RequestMetrics(msgspec.Struct):
    text: _Text = msgspec.field(default_factory=_Text)


class _Info(msgspec.Struct):
    request_metrics: _RequestMetrics = msgspec.field(default_factory=_RequestMetrics)
    response_metrics: _Response | None = None
    response_info: _Response | None = None
    input_tokens: Number | None = None
    output_tokens: Number | None = None
    output_token_times: list[Number] | None = None


class _Request(msgspec.Struct):
    start_time: Number
    end_time: Number
    scheduled_time: Number | None = None
    stage_id: int | None = None
    session_id: str | int | None = None
    info: _Info = msgspec.field(default_factory=_Info)
    error: Any = None


class _Successes(msgspec.Struct):
    count: int | None = None
    latency: dict[str, Any] | None = None
    throughput: dict[str, Any] | None = None


class _Stage(msgspec.Struct):
    load_summary: dict[str, Any] = msgspec.field(default_factory=dict)
    successes: _Successes = msgspec.field(default_factory=_Successes)
    failures: dict[str, Any] = msgspec.field(default_factory=dict)


def is_stage(body: object) -> bool:
    """Return whether a document is the metrics of a stage."""
    return isinstance(body, Mapping) and "load_summary" in body and "successes" in body


def is_requests(body: object) -> bool:
    """Return whether a document is a list of requests."""
    return (
        isinstance(body, list)
        and bool(body)
        and isinstance(body[0], Mapping)
        and {"start_time", "end_time", "info"} <= body[0].keys()
    )


def read_inference_perf(
    stages: Mapping[int, Document], requests: Document | None
) -> dict[int, BenchmarkResult]:
    """Return the result of each stage by its number, in order.

    Parameters
    ----------
    stages
        The metrics of each stage by its number; may be empty if there are requests.
    requests
        The list of requests; None if it was not saved.

    Raises
    ------
    TraceError
        If a field is of another type, or a number cannot be one of a request.
    """
    rows = [] if requests is None else converted(requests.body, list[_Request], requests.where)
    by_stage: dict[int, list[_Request]] = {}
    for row in rows:
        by_stage.setdefault(row.stage_id or 0, []).append(row)
    where = requests.where if requests is not None else ""
    found = {}
    for number in sorted({*stages, *by_stage}):
        document = stages.get(number)
        stage = None if document is None else converted(document.body, _Stage, document.where)
        name = document.where if document is not None else f"{where}, stage {number}"
        found[number] = _result(name, stage, by_stage.get(number, []), where)
    return found


def _result(name: str, stage: _Stage | None, rows: Sequence[_Request], where: str) -> BenchmarkResult:
    lacks = []
    if not rows:
        lacks += [f"lengths and latencies of requests ({PER_REQUEST} has them)", "when requests were sent"]
    if stage is None:
        lacks.append("the load that was asked for (stage_N_lifecycle_metrics.json has it)")
    stage = stage or _Stage()
    return BenchmarkResult(
        name=name,
        tool="inference-perf",
        requests=_requests(rows, where) if rows else no_requests(),
        load=_load(stage.load_summary, name),
        totals=_totals(stage),
        stated=_stated(stage.successes.latency or {}),
        lacks=tuple(lacks),
    )


def _requests(rows: Sequence[_Request], where: str) -> Any:  # noqa: ANN401 - a frame
    columns: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in _row(row).items():
            columns.setdefault(name, []).append(value)
    completed = [gaps for gaps, failed in zip(columns["gaps"], columns["failure"], strict=True) if not failed]
    if any(gaps is None for gaps in completed):
        columns["gaps"] = [None] * len(rows)
    return requests_frame(columns, where)


def _row(row: _Request) -> dict[str, Any]:
    response = (
        row.info.response_metrics
        or row.info.response_info
        or _Response(row.info.output_tokens, row.info.output_token_times)
    )
    inputs = row.info.request_metrics.text.input_tokens or row.info.input_tokens
    times = response.output_token_times
    failure = None
    if row.error is not None:
        kind = row.error.get("error_type") if isinstance(row.error, Mapping) else row.error
        failure = str(kind or "error")[:200]
    elif not response.output_tokens or not inputs:
        failure = "no tokens"
    # Without streaming the first token comes with the last.
    first = times[0] if times else row.end_time
    return {
        "session": None if row.session_id is None else str(row.session_id),
        "scheduled": row.scheduled_time,
        "sent": row.start_time,
        "prompt_tokens": inputs,
        "output_tokens": response.output_tokens,
        "measured_ttft": first - row.start_time,
        "measured_e2e": row.end_time - row.start_time,
        "last_token": (times[-1] if times else row.end_time) - row.start_time,
        "gaps": None if not times else [max(b - a, 0.0) for a, b in pairwise(times)],
        "failure": failure,
    }


def _stated(latency: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    found = {ours: stated_of(latency.get(theirs)) for ours, theirs in _STATED.items()}
    return {metric: statistics for metric, statistics in found.items() if statistics}


def _number(table: Mapping[str, Any] | None, name: str) -> float | None:
    value = (table or {}).get(name)
    return known(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _totals(stage: _Stage) -> BenchmarkTotals:
    failed = _number(stage.failures, "count")
    throughput = stage.successes.throughput
    return BenchmarkTotals(
        duration_s=_number(stage.load_summary, "send_duration"),
        completed=stage.successes.count,
        failed=None if failed is None else int(failed),
        request_throughput=_number(throughput, "requests_per_sec"),
        output_throughput=_number(throughput, "output_tokens_per_sec"),
        total_throughput=_number(throughput, "total_tokens_per_sec"),
    )


def _load(summary: Mapping[str, Any], where: str) -> BenchmarkLoad:
    rate = _number(summary, "requested_rate")
    most = count_if(summary.get("concurrency"), f"{where}: concurrency")
    return BenchmarkLoad(rate=rate if rate is not None and rate > 0 else None, max_concurrency=most)
