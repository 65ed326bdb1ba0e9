"""What a comparison found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from paceline._arguments import typed
from paceline._check import one_of
from paceline.comparing.figures import LATENCIES
from paceline.errors import ResultError
from paceline.result import Result

__all__ = ["Comparison"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Comparison:
    """Policies side by side on the same requests.

    Attributes
    ----------
    table
        A row for each policy, metric and figure. ``value`` with its interval from ``low`` to ``high``, over
        the requests that have the metric under the policy, of which there are ``count``. Against the
        baseline, over the ``pairs`` of requests that have the metric under both: ``difference`` (value minus
        the baseline's) and ``ratio`` (value over the baseline's), each with the ends of its interval, and
        ``better``, the share of pairs in which the policy's value is the better one (ties count half). These
        are null for the baseline. Metrics: the latencies ``ttft``, ``tpot``, ``e2e``, ``max_itl`` and
        ``queueing`` in seconds (figures ``mean``, ``p50``, ``p90``, ``p99``); ``attainment`` of the SLO and
        ``finished`` (figure ``share``).
    results
        The results by policy, one for each trace.
    baseline
        The policy that the others are compared with.
    method
        How the intervals are computed, in words.
    confidence
        The share of such intervals that hold the true value.
    warmup_s
        Requests that arrive in the first so many seconds of a trace are not judged.
    warmup_requests
        How many they are, by trace.
    requests
        How many are judged, by trace.
    """

    table: pl.DataFrame
    results: Mapping[str, tuple[Result, ...]]
    baseline: str
    method: str
    confidence: float
    warmup_s: float
    warmup_requests: tuple[int, ...]
    requests: tuple[int, ...]

    @typed(ResultError)
    def paired(self, metric: str) -> pl.DataFrame:
        """Return a latency of each judged request under each policy.

        Parameters
        ----------
        metric
            One of the latencies.

        Returns
        -------
        polars.DataFrame
            ``trace`` and ``request``, the places of the trace and of the request in it, ``arrival``, and a
            column for each policy; null where the request does not have the metric.
        """
        one_of("metric", metric, LATENCIES, ResultError)
        frames = []
        for trace, first in enumerate(self.results[self.baseline]):
            columns = {name: of[trace].column(metric) for name, of in self.results.items()}
            frame = pl.DataFrame({"arrival": first.column("arrival"), **columns})
            frame = frame.with_row_index("request").insert_column(0, pl.lit(trace).alias("trace"))
            frames.append(frame.filter(pl.col("arrival") >= self.warmup_s))
        return pl.concat(frames)

    def to_dict(self) -> dict[str, Any]:
        """Return all but the results, ready for JSON."""
        return {
            "baseline": self.baseline,
            "method": self.method,
            "confidence": self.confidence,
            "warmup_s": self.warmup_s,
            "warmup_requests": list(self.warmup_requests),
            "requests": list(self.requests),
            "table": self.table.rows(named=True),
        }

    def __repr__(self) -> str:
        """Show the policies, the number of requests, and how intervals are computed."""
        others = ", ".join(name for name in self.results if name != self.baseline)
        return f"Comparison({others} against {self.baseline}, {sum(self.requests):,} requests, {self.method})"
