"""What the paper measures of each request, from a replay's columns."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import polars as pl

from paceline.study.pascal.paper import SLO_QOE
from paceline.trace import Trace

__all__ = ["medians", "number", "p99", "throughput", "violations", "with_paper_metrics"]


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
        The replay's columns, of which ``ttft`` is replaced by the paper's, from arrival to the first answer
        token (null where nothing is answered); and ``reasoning_tokens``, ``answer_tokens``, ``reasoning``
        (from arrival to the last reasoning token, seconds) and ``violated`` (QoE below 0.95).
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
    )


def number(found: object) -> float:
    """Return what polars found of a column, as a float; 0 where the column was empty."""
    return float(found) if isinstance(found, int | float) else 0.0


def medians(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each number over several rows.

    Examples
    --------
    >>> medians([{"cut": 0.1}, {"cut": 0.5}, {"cut": 0.2}])
    {'cut': 0.2}
    """
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def violations(requests: pl.DataFrame) -> float:
    """Return the share of the requests that answered below the objective."""
    return number(requests["violated"].mean())


def throughput(requests: pl.DataFrame) -> float:
    """Return tokens per second: all tokens over the time that it took to generate them (V.B)."""
    span = requests.select(pl.col("finish").max() - pl.col("arrival").min()).item()
    return float(requests["output_tokens"].sum() / span)


def p99(values: pl.Series) -> float:
    """Return the 99th percentile, with linear interpolation; 0 of nothing."""
    found = values.drop_nulls().quantile(0.99, interpolation="linear")
    return 0.0 if found is None else found
