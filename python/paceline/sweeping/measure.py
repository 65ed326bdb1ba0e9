"""The row of a point: what a replay comes to."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from paceline import _core
from paceline.deployment import Cluster
from paceline.policy import Policy
from paceline.result import Provenance, Result
from paceline.result.totals import total
from paceline.sweeping.point import Point, canonical
from paceline.trace import Trace

__all__ = ["METRICS", "QUANTILES", "TOTALS", "failed_row", "frame_of", "measured_row"]

Floats = NDArray[np.float64]

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

_COLUMN_OF: Final = {"ttft": "ttft", "tpot": "tpot", "e2e": "e2e", "itl": "max_itl"}


def measured_row(
    point: Point, identity: str, trace: Trace, cluster: Cluster, policy: Policy, result: Result
) -> dict[str, Any]:
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
        borrowed_fits=[fit for fit in dict.fromkeys(each.borrowed_fit for each in cluster.instances) if fit],
    )
    columns = result._columns
    totals = total(columns, result.stats, provenance).to_dict()
    judged = columns.seconds("arrival") >= point.warmup_s
    number = int(judged.sum())
    row: dict[str, Any] = {
        "trace": trace.name,
        "trace_sha256": trace.sha256,
        "warmup_s": point.warmup_s,
        "warmup_requests": len(judged) - number,
        "totals": json.dumps(totals),
    }
    values = {metric: columns.seconds(metric) for metric in METRICS}
    if number < len(judged):
        values = {metric: of[judged] for metric, of in values.items()}
    for metric, of in values.items():
        row |= _figures(metric, of)
    if point.slo:
        met = (columns["status"].to_physical().to_numpy() == 0)[judged]
        for name, bound in point.slo.items():
            # A finished request without the latency has a single token, and no gap to exceed.
            met &= ~(values[_COLUMN_OF[name]] > bound)
        window = totals["makespan_s"] - point.warmup_s
        row["attainment"] = int(met.sum()) / number if number else None
        row["goodput"] = int(met.sum()) / window if window > 0 else None
    row |= {name: totals[name] for name in TOTALS}
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
    schema |= {"attainment": pl.Float64(), "goodput": pl.Float64()} | TOTALS
    schema |= {"totals": pl.String(), "config": pl.String()}
    return pl.from_dicts([{name: row.get(name) for name in schema}], schema=schema)


def _row(point: Point, identity: str, status: str, error: str | None) -> dict[str, Any]:
    whole = {"whole": point.whole, "fields": point.fields}
    config = canonical(whole if error is not None else point.config)
    labels = {
        axis: str(label) if point.types[axis] == "str" and label is not None else label
        for axis, label in point.labels.items()
    }
    return {"id": identity, "status": status, "error": error, **labels, "config": config}


def _figures(metric: str, values: Floats) -> dict[str, Any]:
    """Return mean, percentiles and maximum of the values that are not nan; nothing if there are none."""
    ordered = np.sort(values)  # nan last
    number = int(np.searchsorted(ordered, np.inf, side="right"))
    if number == 0:
        return {}
    ordered = ordered[:number]
    found = {f"{metric}_mean": float(ordered.mean()), f"{metric}_max": float(ordered[-1])}
    for name, share in QUANTILES.items():
        place = share * (number - 1)
        low, part = int(place), place % 1.0
        below, above = ordered[low], ordered[min(low + 1, number - 1)]
        found[f"{metric}_{name}"] = float(below + (above - below) * part)
    return found
