"""The row of a point: what a replay comes to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

from paceline import _core
from paceline.policy import Policy
from paceline.result import Provenance, Result
from paceline.result.attainment import latency_bounds
from paceline.result.columns import Spread
from paceline.result.totals import total
from paceline.sweeping.point import Point, canonical
from paceline.trace import Trace

__all__ = [
    "METRICS",
    "QUANTILES",
    "TOTALS",
    "failed_row",
    "frame_of",
    "label_of",
    "measured_row",
    "schema_of",
]

METRICS: Final = ("ttft", "tpot", "e2e", "max_itl", "queueing")
QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

TOTALS: Final = {
    **dict.fromkeys(("requests", "finished", "rejected", "preemptions"), pl.Int64()),
    **dict.fromkeys(
        (
            "simulated_s",
            "makespan_s",
            "requests_per_s",
            "output_tokens_per_s",
            "total_tokens_per_s",
            "mean_batch",
            "mean_kv_use",
            "peak_kv_use",
            "prefix_hit_rate",
            "energy_j",
        ),
        pl.Float64(),
    ),
}
"""The totals that have columns of their own, with their types; ``totals`` has all."""

_TYPES: Final = {"int": pl.Int64(), "float": pl.Float64(), "bool": pl.Boolean()}


def measured_row(point: Point, identity: str, trace: Trace, policy: Policy, result: Result) -> dict[str, Any]:
    """Return the row of a replay, by column.

    Latencies, attainment and goodput are of the requests that arrive after the warm-up; the totals are of
    the whole replay.
    """
    # What totals say of the inputs; a whole provenance writes them as text, and a row has them in `config`.
    provenance = Provenance(
        version=_core.VERSION,
        trace=trace.name,
        trace_sha256=trace.sha256,
        dropped_rows=dict(trace.dropped),
        cluster="",
        policy="",
        uses_oracle=policy.uses_oracle,
        borrowed_fits=list(point.borrowed_fits()),
    )
    columns = result._columns
    totals = total(columns, result.stats, provenance).to_dict()
    # None: all are judged.
    judged = columns.seconds("arrival") >= point.warmup_s if point.warmup_s > 0 else None
    number = len(columns) if judged is None else int(judged.sum())
    row: dict[str, Any] = {
        "trace": trace.name,
        "trace_sha256": trace.sha256,
        "warmup_s": point.warmup_s,
        "warmup_requests": len(columns) - number,
        "totals": json.dumps(totals),
    }
    finished = columns.codes("status") == 0
    spreads, good = columns.measure(
        METRICS,
        list(QUANTILES.values()),
        rows=judged,
        bounds=latency_bounds(point.slo),
        candidates=finished if judged is None else finished & judged,
    )
    for metric in METRICS:
        row |= _figures(metric, spreads[metric])
    if point.slo:
        window = totals["makespan_s"] - point.warmup_s
        row["attainment"] = good / number if number else None
        row["goodput"] = good / window if window > 0 else None
    row |= {name: totals[name] for name in TOTALS}
    return _row(point, identity, "done", None) | row


def failed_row(point: Point, identity: str, error: BaseException) -> dict[str, Any]:
    """Return the row of a point that failed: its error, and nothing measured."""
    return _row(point, identity, "failed", f"{type(error).__name__}: {error}")


def frame_of(types: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return rows as a table of the dataset's columns; what a failed point lacks is null.

    Parameters
    ----------
    types
        The types of the axes, as of `Point`.
    rows
        As the functions above return them.
    """
    schema = schema_of(types)
    return pl.DataFrame({name: [row.get(name) for row in rows] for name in schema}, schema=schema)


def schema_of(types: Mapping[str, str]) -> dict[str, pl.DataType]:
    """Return the columns of the dataset with their types; `types` has those of the axes."""
    schema: dict[str, pl.DataType] = {"id": pl.String(), "status": pl.String(), "error": pl.String()}
    schema |= {axis: _TYPES.get(kind, pl.String()) for axis, kind in types.items()}
    schema |= {"trace": pl.String(), "trace_sha256": pl.String()}
    schema |= {"warmup_s": pl.Float64(), "warmup_requests": pl.Int64()}
    figures = ("mean", *QUANTILES, "max")
    schema |= {f"{metric}_{name}": pl.Float64() for metric in METRICS for name in figures}
    schema |= {"attainment": pl.Float64(), "goodput": pl.Float64()}
    schema |= TOTALS
    return schema | {"totals": pl.String(), "config": pl.String()}


def _row(point: Point, identity: str, status: str, error: str | None) -> dict[str, Any]:
    if error is None:
        config = point.config_text()
    else:
        config = canonical({"whole": point.whole, "fields": point.fields})
    return {"id": identity, "status": status, "error": error, **_labels(point), "config": config}


def _labels(point: Point) -> dict[str, Any]:
    return {axis: label_of(label, point.types[axis]) for axis, label in point.labels.items()}


def label_of(label: Any, kind: str) -> Any:  # noqa: ANN401
    """Return the label of an axis of a type as its column has it."""
    return str(label) if kind == "str" and label is not None else label


def _figures(metric: str, spread: Spread | None) -> dict[str, Any]:
    """Return the columns of a latency's mean, percentiles and maximum; nothing where no request has it."""
    if spread is None:
        return {}
    named = dict(zip(QUANTILES, spread.quantiles, strict=True)) | {"mean": spread.mean, "max": spread.max}
    return {f"{metric}_{name}": value for name, value in named.items()}
