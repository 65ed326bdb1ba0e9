"""AIPerf's ``profile_export.jsonl`` and ``profile_export_aiperf.json`` (AIPerf 0.13)."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from paceline.benchmarks.formats.aiperf import RECORDS, SUMMARY
from paceline.benchmarks.writing.facts import Facts, facts_of
from paceline.result import Result

__all__ = ["aiperf_files"]

Floats = NDArray[np.float64]

_PERCENTILES: Final = (1, 5, 10, 25, 50, 75, 90, 95, 99)


def aiperf_files(result: Result) -> dict[str, str]:
    """Return the texts of both files by name.

    Times are nanoseconds from the start of 1970, which is the trace's start. Neither file has gaps between
    chunks.

    Raises
    ------
    ResultError
        If no request finished.
    """
    facts = facts_of(result)
    return {RECORDS: _records(facts), SUMMARY: json.dumps(_summary(result, facts), indent=2) + "\n"}


def _metric(value: float, unit: str) -> dict[str, Any]:
    return {"value": value, "unit": unit}


def _records(facts: Facts) -> str:
    lines = []
    names = ("arrival", "finish", "ttft", "tpot", "e2e", "prompt_tokens", "output_tokens", "failure")
    for at, row in enumerate(facts.rows.select(names).iter_rows()):
        arrival, finish, ttft, tpot, e2e, inputs, outputs, failure = row
        start = round(1e9 * (arrival or 0.0))
        metadata = {
            "session_num": at,
            "x_request_id": str(at),
            "x_correlation_id": None,
            "conversation_id": None,
            "turn_index": 0,
            "request_start_ns": start,
            "request_end_ns": start if finish is None else round(1e9 * finish),
            "worker_id": "paceline",
            "record_processor_id": "paceline",
            "benchmark_phase": "profiling",
            "was_cancelled": False,
        }
        if failure is None:
            metrics = {
                "input_sequence_length": _metric(inputs, "tokens"),
                "output_sequence_length": _metric(outputs, "tokens"),
                "time_to_first_token": _metric(1e3 * ttft, "ms"),
                "request_latency": _metric(1e3 * e2e, "ms"),
            }
            if tpot is not None:
                metrics["inter_token_latency"] = _metric(1e3 * tpot, "ms")
            error = None
        else:
            metrics = {"error_isl": _metric(inputs, "tokens")}
            error = {"code": None, "type": failure, "message": failure}
        lines.append(json.dumps({"metadata": metadata, "metrics": metrics, "error": error}, allow_nan=False))
    return "\n".join(lines) + "\n"


def _table(values: Floats, unit: str) -> dict[str, Any]:
    """Return the statistics of a metric; a derived scalar has only ``avg``."""
    quantiles = np.percentile(values, _PERCENTILES)
    return {
        "unit": unit,
        "avg": float(values.mean()),
        **{f"p{of}": float(value) for of, value in zip(_PERCENTILES, quantiles, strict=True)},
        "min": float(values.min()),
        "max": float(values.max()),
        "std": float(values.std()),
        "count": len(values),
        "sum": float(values.sum()),
    }


def _summary(result: Result, facts: Facts) -> dict[str, Any]:
    finished = facts.finished
    inputs, outputs = (float(finished.get_column(name).sum()) for name in ("prompt_tokens", "output_tokens"))
    counts = {
        "request_count": float(len(finished)),
        "error_request_count": float(len(facts.rows) - len(finished)),
    }
    tables: dict[str, Any] = {name: {"unit": "requests", "avg": value} for name, value in counts.items()}
    tables["total_isl"], tables["total_osl"] = (
        {"unit": "tokens", "avg": total} for total in (inputs, outputs)
    )
    tables["benchmark_duration"] = {"unit": "sec", "avg": facts.duration_s}
    if facts.duration_s > 0:
        for name, unit, amount in (
            ("request_throughput", "requests/sec", float(len(finished))),
            ("output_token_throughput", "tokens/sec", outputs),
            ("total_token_throughput", "tokens/sec", inputs + outputs),
        ):
            tables[name] = {"unit": unit, "avg": amount / facts.duration_s}
    for name, column, unit in (
        ("time_to_first_token", "ttft", "ms"),
        ("inter_token_latency", "tpot", "ms"),
        ("request_latency", "e2e", "ms"),
        ("input_sequence_length", "prompt_tokens", "tokens"),
        ("output_sequence_length", "output_tokens", "tokens"),
    ):
        values = finished.get_column(column).drop_nulls().to_numpy().astype(np.float64)
        if values.size:
            tables[name] = _table(1e3 * values if unit == "ms" else values, unit)
    loadgen = {
        "concurrency": facts.max_concurrency,
        "request_rate": facts.rate,
    }
    return {
        "schema_version": "1.0",
        "aiperf_version": f"paceline {result.provenance.version}",
        "benchmark_id": result.provenance.trace_sha256[:32],
        **tables,
        "input_config": {"endpoint": {"model_names": [facts.model]}, "loadgen": loadgen},
        "was_cancelled": False,
        "error_summary": [],
        "start_time": None,
        "end_time": None,
    }
