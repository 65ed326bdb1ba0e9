"""What a comparison found."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from paceline._arguments import typed
from paceline._check import one_of
from paceline.comparing.figures import LATENCIES
from paceline.errors import ResultError
from paceline.objectives import SLO
from paceline.result import Result
from paceline.showing.card import card
from paceline.showing.cell import cell
from paceline.showing.writers import writer

__all__ = ["SHORT", "Comparison"]

SHORT: Final = (
    ("ttft", "mean"),
    ("ttft", "p50"),
    ("ttft", "p99"),
    ("tpot", "mean"),
    ("tpot", "p99"),
    ("e2e", "mean"),
    ("e2e", "p99"),
    ("attainment", "share"),
    ("finished", "share"),
)
"""The metrics and figures that are shown first."""


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
    slo
        The bounds of the attainment.
    """

    table: pl.DataFrame
    results: Mapping[str, tuple[Result, ...]]
    baseline: str
    method: str
    confidence: float
    warmup_s: float
    warmup_requests: tuple[int, ...]
    requests: tuple[int, ...]
    slo: SLO | None = None

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

    def report(self, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
        """Write a report: one HTML file with the intervals, and the policies side by side.

        Beside the intervals it has all charts of `Result.report`, of the first trace under each policy.

        Parameters
        ----------
        path
            The file. It is replaced if it exists.
        title
            The page's title; made from the trace and the policies if not given.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        ConfigError
            If the extra ``paceline[report]`` is not installed, or there are more than 8 policies.
        ResultError
            If the file cannot be written.
        """
        names = [self.baseline, *(name for name in self.results if name != self.baseline)]
        results = {name: self.results[name][0] for name in names}
        written: Path = writer("report")(results, path, slo=self.slo, comparison=self, title=title)
        return written

    def _repr_html_(self) -> str:
        """Show the main figures with their intervals in a notebook."""
        rows = [row for row in self.table.rows(named=True) if (row["metric"], row["figure"]) in SHORT]
        cells = [
            (
                f"{row['metric']} {row['figure']}, {row['policy']}",
                cell(row["value"]),
                _ends(row["low"], row["high"]),
                cell(row["ratio"]),
                _ends(row["ratio_low"], row["ratio_high"]),
                "–" if row["better"] is None else f"{row['better']:.1%}",
            )
            for row in rows
        ]
        cut = f"{sum(self.warmup_requests):,} requests of the first {self.warmup_s:g} s are not judged"
        facts = [
            ("baseline", self.baseline),
            ("intervals", f"{100 * self.confidence:g}%, {self.method}"),
            ("judged", f"{sum(self.requests):,} requests"),
            ("warm-up", cut),
        ]
        head = ("seconds or share", "value", "interval", "× baseline", "interval", "better")
        return card(f"Comparison of {', '.join(self.results)}", facts, head=head, rows=cells)

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


def _ends(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{cell(low)} to {cell(high)}"
