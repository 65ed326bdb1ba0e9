"""llm-d's benchmark report 0.2.1 (llm-d/llm-d-benchmark 566a759, ``benchmark_report/schema_v0_2_1.py``).

Its schema forbids fields that it does not name. Instances are components of the kind ``generic``; if the
replay was sampled, their KV use and queues are there as statistics and over time.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from paceline.benchmarks.served import served_by
from paceline.benchmarks.writing.facts import Facts, facts_of
from paceline.errors import ResultError
from paceline.result import Result

__all__ = ["report_text"]

Floats = NDArray[np.float64]

_QUANTILES: Final = {
    "p0p1": 0.001,
    "p1": 0.01,
    "p5": 0.05,
    "p10": 0.10,
    "p25": 0.25,
    "p50": 0.50,
    "p75": 0.75,
    "p90": 0.90,
    "p95": 0.95,
    "p99": 0.99,
    "p99p9": 0.999,
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def report_text(result: Result, path: Path) -> str:
    """Return the report of a replay as JSON, or as YAML if the path says so.

    Raises
    ------
    ResultError
        If no request finished, or PyYAML is not installed and the path ends in ``.yaml`` or ``.yml``.
    """
    report = _report(result, facts_of(result))
    if path.suffix not in (".yaml", ".yml"):
        return json.dumps(report, indent=2, allow_nan=False) + "\n"
    try:
        yaml = import_module("yaml")
    except ImportError as error:
        raise ResultError(
            f"{path}: YAML needs PyYAML: pip install 'paceline[benchmarks]', or name a .json file"
        ) from error
    # PyYAML writes an object that it meets twice as a reference; JSON has none.
    return str(yaml.safe_dump(json.loads(json.dumps(report, allow_nan=False))))


def _report(result: Result, facts: Facts) -> dict[str, Any]:
    provenance = result.provenance
    parts = (provenance.trace_sha256, provenance.cluster, provenance.policy, repr(provenance.settings))
    begin, end = (_EPOCH + timedelta(seconds=at) for at in (facts.start, facts.start + facts.duration_s))
    times = {"start": _iso(begin), "end": _iso(end), "duration": f"PT{facts.duration_s:.9f}S"}
    results: dict[str, Any] = {"request_performance": {"aggregate": _aggregate(result, facts)}}
    if result.is_sampled:
        results["observability"] = {"components": _observed(result)}
    return {
        "version": "0.2.1",
        "run": {
            "uid": _hash("\n".join(parts)),
            "eid": _hash(provenance.trace_sha256),
            "time": times,
            "description": f"simulated, not measured: a replay of {provenance.trace} by Paceline",
        },
        "scenario": {"stack": _stack(result, facts), "load": _load(result, facts)},
        "results": results,
    }


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _label(index: int) -> str:
    return f"instance-{index}"


def _stack(result: Result, facts: Facts) -> list[dict[str, Any]]:
    provenance = result.provenance
    native = {"config": {"cluster": provenance.cluster, "policy": provenance.policy}}
    standardized = {
        "kind": "generic",
        "tool": "paceline",
        "tool_version": provenance.version,
        "model": {"name": facts.model},
    }
    return [
        {
            "metadata": {
                "schema_version": "0.0.1",
                "label": _label(index),
                "cfg_id": _hash(provenance.cluster + provenance.policy),
            },
            "standardized": standardized,
            "native": native,
        }
        for index in range(len(result.stats.instances))
    ]


def _load(result: Result, facts: Facts) -> dict[str, Any]:
    def lengths(name: str) -> dict[str, Any]:
        values = facts.rows.get_column(name).to_numpy()
        fixed = values.min() == values.max()
        return {
            "distribution": "fixed" if fixed else "other",
            "value": float(values.mean()),
            "min": int(values.min()),
            "max": int(values.max()),
        }

    standardized: dict[str, Any] = {
        "tool": "paceline",
        "tool_version": result.provenance.version,
        "parallelism": 1,
        "source": "unknown",
        "stage": 0,
        "input_seq_len": lengths("prompt_tokens"),
        "output_seq_len": lengths("output_tokens"),
    }
    if facts.rate is not None:
        standardized["rate_qps"] = facts.rate
    if facts.max_concurrency is not None:
        standardized["concurrency"] = facts.max_concurrency
    return {
        "metadata": {"schema_version": "0.0.1", "cfg_id": _hash(result.provenance.trace_sha256)},
        "standardized": standardized,
        "native": {
            "config": {"trace": result.provenance.trace, "settings": _plain(result.provenance.settings)}
        },
    }


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value if isinstance(value, str | int | float | bool | None) else repr(value)
        for name, value in settings.items()
    }


def _statistics(values: Floats, units: str) -> dict[str, Any]:
    quantiles = np.quantile(values, list(_QUANTILES.values()))
    return {
        "units": units,
        "mean": float(values.mean()),
        "stddev": float(values.std()),
        "min": float(values.min()),
        **{name: float(value) for name, value in zip(_QUANTILES, quantiles, strict=True)},
        "max": float(values.max()),
    }


def _aggregate(result: Result, facts: Facts) -> dict[str, Any]:
    finished, served = facts.finished, served_by(result)
    latency = {
        "time_to_first_token": _statistics(served.ttft, "s"),
        "normalized_time_per_output_token": _statistics(served.e2e / served.output_tokens, "s/token"),
        "request_latency": _statistics(served.e2e, "s"),
    }
    decode, _ = served.decode()
    if decode.size:
        latency["time_per_output_token"] = _statistics(decode, "s/token")
    gaps = _gaps(result)
    if gaps:
        latency["inter_token_latency"] = gaps
    tokens = {
        name: finished.get_column(name).to_numpy().astype(np.float64)
        for name in ("prompt_tokens", "output_tokens")
    }
    inputs, outputs, span = tokens["prompt_tokens"].sum(), tokens["output_tokens"].sum(), facts.duration_s
    rates = {
        "input_token_rate": (inputs, "tokens/s"),
        "output_token_rate": (outputs, "tokens/s"),
        "total_token_rate": (inputs + outputs, "tokens/s"),
        "request_rate": (len(finished), "queries/s"),
    }
    return {
        "requests": {
            "total": len(facts.rows),
            "failures": len(facts.rows) - len(finished),
            "input_length": _statistics(tokens["prompt_tokens"], "count"),
            "output_length": _statistics(tokens["output_tokens"], "count"),
        },
        "latency": latency,
        "throughput": {
            name: {"units": units, "mean": float(amount) / span}
            for name, (amount, units) in rates.items()
            if span
        },
    }


def _gaps(result: Result) -> dict[str, Any] | None:
    """Return the statistics of all gaps between tokens, from their sketch."""
    mean = served_by(result).gaps
    assert callable(mean), "Invariant: a replay keeps a sketch"
    if mean(None) is None:
        return None
    quantiles = {"min": 0.0, **_QUANTILES, "max": 1.0}
    variance = result.itl.variance or 0.0
    return {
        "units": "s/token",
        "mean": mean(None),
        "stddev": float(np.sqrt(variance)),
        **{name: mean(q) for name, q in quantiles.items()},
    }


def _observed(result: Result) -> list[dict[str, Any]]:
    """Return what each instance did over time; ``kv_cache_usage`` is the percentage of its blocks in use."""
    found = []
    for (index,), rows in result.timeline.group_by("instance", maintain_order=True):
        usage = (100.0 * rows.get_column("kv_used_blocks") / rows.get_column("kv_total_blocks")).to_numpy()
        moments = [_iso(_EPOCH + timedelta(seconds=at)) for at in rows.get_column("time_s")]
        series = [{"ts": ts, "value": float(value)} for ts, value in zip(moments, usage, strict=True)]

        def count(name: str, rows: pl.DataFrame = rows) -> dict[str, Any]:
            return _statistics(rows.get_column(name).to_numpy().astype(np.float64), "count")

        found.append(
            {
                "component_label": _label(int(str(index))),
                "aggregate": {
                    "kv_cache_usage": _statistics(usage, "percent"),
                    "running_requests": count("running"),
                    "waiting_requests": count("waiting"),
                    "swapped_requests": count("swapped"),
                },
                "time_series": {"kv_cache_usage": {"units": "percent", "series": series}},
            }
        )
    return found
