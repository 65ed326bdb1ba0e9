"""What the paper measures of each request, from a replay's columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import polars as pl

from paceline.study.pascal.schedulers import SLO_QOE
from paceline.trace import Trace

__all__ = [
    "FORMATS",
    "METRICS",
    "described",
    "end_to_end",
    "number",
    "p99",
    "throughput",
    "violations",
    "with_paper_metrics",
]


_ADDED: Final = ("reasoning_tokens", "answer_tokens", "reasoning", "violated")
_KEPT: Final = (
    *("arrival", "finish", "output_tokens", "ttft", "e2e", "qoe", "blocked", "preempted"),
    *("preempted_answering", "preemptions", "migrations", "transfer", "blocking", *_ADDED),
)
"""A study keeps millions of requests: other columns are dropped."""


def with_paper_metrics(trace: Trace, requests: pl.DataFrame) -> pl.DataFrame:
    """Return the finished requests with the paper's metrics beside the replay's columns.

    Parameters
    ----------
    trace
        With ``reasoning_tokens``.
    requests
        A replay's, in the order of the trace.

    Returns
    -------
    DataFrame
        The columns that the pages read, where the replay has them. ``ttft`` is the paper's, from arrival to
        the first answer token (null if nothing is answered). Added are ``reasoning_tokens``,
        ``answer_tokens``, ``reasoning`` (from arrival to the last reasoning token, seconds) and ``violated``
        (QoE below 0.95).
    """
    return (
        requests.with_columns(trace.frame["reasoning_tokens"])
        .filter(pl.col("finish").is_not_null())
        .with_columns(
            ttft=pl.col("first_answer") - pl.col("arrival"),
            reasoning=pl.col("reasoning_end") - pl.col("arrival"),
            answer_tokens=pl.col("output_tokens") - pl.col("reasoning_tokens"),
            violated=pl.col("qoe_answering") < SLO_QOE,
        )
        .select(name for name in _KEPT if name in requests.columns or name in _ADDED)
    )


def number(found: object) -> float:
    """Return a statistic of a column as a float; 0 if the column was empty."""
    return float(found) if isinstance(found, int | float) else 0.0


def violations(requests: pl.DataFrame) -> float:
    """Return the share of requests whose answer is below the objective."""
    return number(requests["violated"].mean())


def throughput(requests: pl.DataFrame) -> float:
    """Return tokens per second: all tokens over the time that it took to generate them (V.B)."""
    span = requests.select(pl.col("finish").max() - pl.col("arrival").min()).item()
    return float(requests["output_tokens"].sum() / span)


def p99(values: pl.Series) -> float:
    """Return the 99th percentile, with linear interpolation; 0 if there are no values."""
    found = values.drop_nulls().quantile(0.99, interpolation="linear")
    return 0.0 if found is None else found


def end_to_end(requests: pl.DataFrame) -> dict[str, float]:
    """Return mean, median and tails of the latency from arrival to completion."""
    latency = requests["e2e"]
    found = {"mean": latency.mean(), "P50": latency.median()}
    found |= {f"P{round(100 * q)}": latency.quantile(q, interpolation="linear") for q in (0.90, 0.95, 0.99)}
    return {name: number(value) for name, value in found.items()}


METRICS: Final[Mapping[str, tuple[Callable[[pl.DataFrame], float], str]]] = {
    "violations": (violations, ".2%"),
    "tokens/s": (throughput, ".0f"),
    "preempted": (lambda requests: number((requests["preemptions"] > 0).mean()), ".1%"),
    "migrated": (lambda requests: number((requests["migrations"] > 0).mean()), ".1%"),
    "P99 transfer (s)": (lambda requests: p99(requests.filter(pl.col("migrations") > 0)["transfer"]), ".3f"),
    "P99 blocking (s)": (lambda requests: p99(requests["blocking"]), ".2f"),
    "P50 TTFT (s)": (lambda requests: number(requests["ttft"].median()), ".1f"),
    "P99 TTFT (s)": (lambda requests: p99(requests["ttft"]), ".1f"),
    "P50 e2e (s)": (lambda requests: end_to_end(requests)["P50"], ".1f"),
    "P99 e2e (s)": (lambda requests: end_to_end(requests)["P99"], ".1f"),
}
"""Columns of tables: what is computed of the requests, and how it is printed."""

FORMATS: Final = {name: spec for name, (_, spec) in METRICS.items()}


def described(requests: pl.DataFrame, *columns: str) -> dict[str, float]:
    """Return some of the `METRICS` of requests."""
    return {name: METRICS[name][0](requests) for name in columns}
