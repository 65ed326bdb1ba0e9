"""Latencies and throughputs of a replay, as benchmark clients count them."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from paceline._clock import TICKS_PER_SECOND
from paceline.benchmarks.definitions import Served
from paceline.benchmarks.model import BenchmarkResult
from paceline.result import Result
from paceline.validation.comparison import Statistics

__all__ = ["predicted_of", "rates_measured", "rates_predicted", "served_by"]

_RATES: Final = ("request_throughput", "output_throughput")


def served_by(result: Result) -> Served:
    """Return the latencies of the finished requests of a replay."""
    finished = result.column("status").cast(pl.String) == "finished"
    ttft, e2e, tokens = (
        result.column(name).filter(finished).to_numpy() for name in ("ttft", "e2e", "output_tokens")
    )
    sketch = result.itl

    def quantile(share: float | None) -> float | None:
        if share is None:
            return sketch.sum_ticks / TICKS_PER_SECOND / sketch.count if sketch.count else None
        return sketch.quantile_s(share)

    return Served(
        ttft=ttft.astype(np.float64),
        e2e=e2e.astype(np.float64),
        output_tokens=tokens.astype(np.int64),
        gaps=quantile,
    )


def predicted_of(result: Result, measured: BenchmarkResult) -> dict[str, Statistics]:
    """Return the statistics of a replay as a benchmark's tool defines them."""
    served = served_by(result)
    computed = {name: definition.statistics(served) for name, definition in measured.definitions.items()}
    return {name: statistics for name, statistics in computed.items() if statistics}


def rates_measured(measured: BenchmarkResult) -> dict[str, Statistics]:
    """Return the throughputs that the file states, else those from the first sending to the last end."""
    stated = {name: getattr(measured.totals, name) for name in _RATES}
    rows = measured.completed
    times = rows.select("sent", "measured_e2e").drop_nulls()
    if len(times):
        sent = times.get_column("sent")
        span = float((sent + times.get_column("measured_e2e")).to_numpy().max() - sent.to_numpy().min())
        tokens = float(rows.get_column("output_tokens").to_numpy().sum())
        computed = {"request_throughput": float(len(rows)), "output_throughput": tokens}
        if span > 0:
            stated = {name: computed[name] / span if rate is None else rate for name, rate in stated.items()}
    return {name: {"mean": rate} for name, rate in stated.items() if rate}


def rates_predicted(result: Result) -> dict[str, Statistics]:
    """Return the throughputs of a replay, from the first arrival to the last completion."""
    arrival, finish = (result.column(name).to_numpy() for name in ("arrival", "finish"))
    span = float(finish.max() - arrival.min())
    if span <= 0:
        return {}
    tokens = float(result.column("output_tokens").sum())
    return {"request_throughput": {"mean": len(result) / span}, "output_throughput": {"mean": tokens / span}}
