"""Results of AIPerf: ``profile_export.jsonl``, a record a request, and ``profile_export_aiperf.json``.

AIPerf 0.13 (``common/models/record_models.py`` and ``export_models.py``). Either file is read with the
other if they lie side by side under these names. Times of records are nanoseconds of the epoch, metrics are
milliseconds with their unit beside them. Records of the warm-up are left out, as AIPerf's statistics leave
them out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from paceline.benchmarks.documents import Document, converted
from paceline.benchmarks.formats.aiperf_summary import (
    PER_SECOND,
    load_of_summary,
    model_of_summary,
    stated_of_summary,
    totals_of_summary,
)
from paceline.benchmarks.model import BenchmarkResult
from paceline.benchmarks.rows import no_requests, requests_frame
from paceline.errors import TraceError

__all__ = ["RECORDS", "SUMMARY", "is_record", "read_aiperf"]

RECORDS: Final = "profile_export.jsonl"
SUMMARY: Final = "profile_export_aiperf.json"

Number = int | float


class _Metric(msgspec.Struct):
    value: Any = None
    unit: str | None = None


class _Error(msgspec.Struct):
    code: int | str | None = None
    type: str | None = None
    message: str | None = None


class _Metadata(msgspec.Struct):
    request_start_ns: int
    request_end_ns: int | None = None
    credit_issued_ns: int | None = None
    x_request_id: str | None = None
    x_correlation_id: str | None = None
    conversation_id: str | None = None
    benchmark_phase: str | None = None
    was_cancelled: bool = False


class _Record(msgspec.Struct):
    metadata: _Metadata
    metrics: dict[str, _Metric]
    error: _Error | None = None


def is_record(body: Mapping[str, Any]) -> bool:
    """Return whether an object is a record of AIPerf."""
    metadata = body.get("metadata")
    return isinstance(metadata, Mapping) and "request_start_ns" in metadata and "metrics" in body


def read_aiperf(records: Sequence[Document], summary: Document | None) -> BenchmarkResult:
    """Return the result of a run.

    Parameters
    ----------
    records
        The lines of the records; none if there is a summary.
    summary
        The summary; None if there are records only.

    Raises
    ------
    TraceError
        If a field is of another type, or a unit is not known.
    """
    lacks: list[str] = []
    notes: list[str] = []
    where = records[0].where.rpartition(", line ")[0] or records[0].where if records else ""
    requests = no_requests()
    if records:
        requests = _requests(records, where, notes)
    else:
        lacks += [f"lengths and latencies of requests ({RECORDS} has them)", "when requests were sent"]
    if summary is None:
        lacks.append(f"the load that was asked for ({SUMMARY} has it)")
    body: Mapping[str, Any] = {} if summary is None else summary.body
    name = where or (summary.where if summary is not None else "")
    version = body.get("aiperf_version")
    return BenchmarkResult(
        name=name,
        tool="aiperf",
        version=version if isinstance(version, str) else None,
        model=model_of_summary(body),
        requests=requests,
        load=load_of_summary(body, name),
        totals=totals_of_summary(body),
        stated=stated_of_summary(body),
        lacks=tuple(lacks),
        notes=tuple(notes),
    )


def _requests(records: Sequence[Document], where: str, notes: list[str]) -> Any:  # noqa: ANN401 - a frame
    columns: dict[str, list[Any]] = {
        name: []
        for name in (
            "request_id",
            "session",
            "scheduled",
            "sent",
            "prompt_tokens",
            "output_tokens",
            "measured_ttft",
            "measured_e2e",
            "gaps",
            "failure",
        )
    }
    warmups, first = 0, None
    for document in records:
        record = converted(document.body, _Record, document.where)
        if record.metadata.benchmark_phase == "warmup":
            warmups += 1
            continue
        first = record.metadata.request_start_ns if first is None else first
        for name, value in _row(record, document.where, first).items():
            columns[name].append(value)
    if warmups:
        notes.append(f"{warmups:,} requests of the warm-up are left out")
    if first is None:
        return no_requests()
    if any(
        gaps is None for gaps, failed in zip(columns["gaps"], columns["failure"], strict=True) if not failed
    ):
        columns["gaps"] = [None] * len(columns["gaps"])
    return requests_frame(columns, where)


def _row(record: _Record, where: str, first: int) -> dict[str, Any]:
    """Return a record's cells; its moments are seconds from the first record's start."""
    of, metrics = record.metadata, record.metrics
    outputs = _count(metrics, "output_sequence_length", where)
    failure = None
    if record.error is not None:
        failure = record.error.type or record.error.message or str(record.error.code or "error")
    elif of.was_cancelled:
        failure = "cancelled"
    elif not outputs:
        failure = "no output"
    e2e = _seconds(metrics, "request_latency", where)
    if e2e is None and of.request_end_ns is not None:
        e2e = (of.request_end_ns - of.request_start_ns) / 1e9
    ttft = _seconds(metrics, "time_to_first_token", where)
    if ttft is None and failure is None:
        # Without streaming the first token comes with the last.
        ttft = e2e
    return {
        "request_id": of.x_request_id,
        "session": of.x_correlation_id or of.conversation_id,
        "scheduled": None if of.credit_issued_ns is None else (of.credit_issued_ns - first) / 1e9,
        "sent": (of.request_start_ns - first) / 1e9,
        "prompt_tokens": _count(metrics, "input_sequence_length", where),
        "output_tokens": outputs,
        "measured_ttft": ttft,
        "measured_e2e": e2e,
        "gaps": _list(metrics, "inter_chunk_latency", where),
        "failure": failure,
    }


def _unit(metric: _Metric, name: str, where: str) -> float:
    unit = metric.unit or "ms"
    if unit not in PER_SECOND:
        raise TraceError(f"{where}: unit of {name} must be one of {', '.join(PER_SECOND)}, was {unit!r}")
    return PER_SECOND[unit]


def _seconds(metrics: Mapping[str, _Metric], name: str, where: str) -> float | None:
    metric = metrics.get(name)
    if metric is None or metric.value is None:
        return None
    return converted(metric.value, float, f"{where}: {name}") / _unit(metric, name, where)


def _list(metrics: Mapping[str, _Metric], name: str, where: str) -> list[float] | None:
    metric = metrics.get(name)
    if metric is None or metric.value is None:
        return None
    per_second = _unit(metric, name, where)
    return [value / per_second for value in converted(metric.value, list[float], f"{where}: {name}")]


def _count(metrics: Mapping[str, _Metric], name: str, where: str) -> float | None:
    metric = metrics.get(name)
    return (
        None if metric is None or metric.value is None else converted(metric.value, float, f"{where}: {name}")
    )
