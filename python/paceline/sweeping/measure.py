"""The row of a point: what a replay comes to."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, Final

import numpy as np
import polars as pl

from paceline.objectives import SLO
from paceline.result import Result
from paceline.result.totals import Totals
from paceline.sweeping.point import Point, canonical
from paceline.trace import Trace

__all__ = ["METRICS", "QUANTILES", "failed_row", "frame_of", "measured_row"]

METRICS: Final = ("ttft", "tpot", "e2e", "max_itl", "queueing")
QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}

_TYPES: Final = {"int": pl.Int64(), "float": pl.Float64(), "bool": pl.Boolean()}


def measured_row(point: Point, identity: str, trace: Trace, result: Result) -> dict[str, Any]:
    """Return the row of a replay, by column.

    Latencies, attainment and goodput are of the requests that arrive after the warm-up; the totals are of
    the whole replay.
    """
    totals = result.totals().to_dict()
    judged = result.column("arrival").to_numpy() >= point.warmup_s
    row: dict[str, Any] = {
        "trace": trace.name,
        "trace_sha256": trace.sha256,
        "warmup_s": point.warmup_s,
        "warmup_requests": int((~judged).sum()),
    }
    every = bool(judged.all())
    for metric in METRICS:
        column = result.column(metric)
        values = (column if every else column.filter(pl.Series(judged))).drop_nulls().to_numpy()
        row |= _figures(metric, values)
    if point.slo:
        met = result.met(SLO(**point.slo)).to_numpy() & judged
        number, window = int(judged.sum()), totals["makespan_s"] - point.warmup_s
        row["attainment"] = int(met.sum()) / number if number else None
        row["goodput"] = int(met.sum()) / window if window > 0 else None
    row |= {
        name: json.dumps(value) if isinstance(value, dict | list) else value for name, value in totals.items()
    }
    return _row(point, identity, "done", None) | row


def failed_row(point: Point, identity: str, error: BaseException) -> dict[str, Any]:
    """Return the row of a point that failed: its error, and nothing measured."""
    return _row(point, identity, "failed", f"{type(error).__name__}: {error}")


def frame_of(point: Point, row: dict[str, Any]) -> pl.DataFrame:
    """Return a row as a table of the dataset's columns; what a failed point lacks is null."""
    schema: dict[str, Any] = {"id": pl.String(), "status": pl.String(), "error": pl.String()}
    schema |= {axis: _TYPES.get(kind, pl.String()) for axis, kind in point.types.items()}
    schema |= {"trace": pl.String(), "trace_sha256": pl.String()}
    schema |= {"warmup_s": pl.Float64(), "warmup_requests": pl.Int64()}
    schema |= {f"{metric}_{name}": pl.Float64() for metric in METRICS for name in ("mean", *QUANTILES, "max")}
    schema |= {f"{metric}_count": pl.Int64() for metric in METRICS}
    schema |= {"attainment": pl.Float64(), "goodput": pl.Float64()}
    for each in fields(Totals):
        schema[each.name] = _TYPES.get(str(each.type).removesuffix(" | None"), pl.String())
    schema["config"] = pl.String()
    return pl.DataFrame([pl.Series(name, [row.get(name)], dtype=dtype) for name, dtype in schema.items()])


def _row(point: Point, identity: str, status: str, error: str | None) -> dict[str, Any]:
    whole = {"whole": point.whole, "fields": point.fields}
    config = canonical(whole if error is not None else point.config)
    labels = {
        axis: str(label) if point.types[axis] == "str" and label is not None else label
        for axis, label in point.labels.items()
    }
    return {"id": identity, "status": status, "error": error, **labels, "config": config}


def _figures(metric: str, values: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, Any]:
    if values.size == 0:
        return {f"{metric}_count": 0}
    ordered = np.sort(values)
    quantiles = np.quantile(ordered, list(QUANTILES.values())).tolist()
    found = {f"{metric}_mean": float(values.mean()), f"{metric}_max": float(ordered[-1])}
    found |= {f"{metric}_{name}": value for name, value in zip(QUANTILES, quantiles, strict=True)}
    return {**found, f"{metric}_count": values.size}
