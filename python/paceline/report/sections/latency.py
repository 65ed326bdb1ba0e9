"""Distributions of latencies, latency by length, and the parts of a latency."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from paceline.report.answer import duration
from paceline.report.charts.kit import Axis, Chart, lines
from paceline.report.data.distributions import METRICS, SHOWN, distributions
from paceline.report.data.lengths import ENOUGH, by_length
from paceline.report.figure import Figure, Section, Table, table_of
from paceline.report.replayed import Run
from paceline.report.sections.groups import worst
from paceline.showing.cell import cell

if TYPE_CHECKING:
    from paceline.objectives import SLO

__all__ = [
    "by_lengths",
    "cdf_chart",
    "latencies",
    "length_chart",
    "shares_at",
    "tail_chart",
    "ttft_figure",
]


def cdf_chart(frame: pl.DataFrame, title: str, bound: float | None = None) -> Chart:
    """Chart the share of requests at or below each latency, and mark that at a bound in seconds."""
    seconds = Axis("seconds", f"{title} (s)", scale="log")
    marks = None if bound is None else shares_at(frame, bound, "share")
    return lines(frame, seconds, _share_of(title), marks=marks)


def tail_chart(frame: pl.DataFrame, title: str, bound: float | None = None) -> Chart:
    """Chart the share of requests above each latency, on logarithmic axes, and mark that at a bound."""
    above = frame.filter(pl.col("above") > 0)
    seconds = Axis("seconds", f"{title} (s)", scale="log")
    what = "gaps" if title == "ITL" else "requests"
    share = Axis("above", f"share of {what} above", scale="log", form="~%", tip=".4~%")
    marks = None if bound is None else shares_at(above, bound, "above").filter(pl.col("above") > 0)
    return lines(above, seconds, share, marks=marks)


def shares_at(frame: pl.DataFrame, bound: float, column: str) -> pl.DataFrame:
    """Return ``run``, ``seconds`` (the bound), ``column`` and a ``label``: each distribution's share there.

    Between two quantiles of the distribution, the share is on a straight line.
    """
    rows = []
    for (run,), of in frame.sort("seconds").group_by("run", maintain_order=True):
        share = float(np.interp(bound, of["seconds"].to_numpy(), of[column].to_numpy()))
        rows.append((run, bound, share, f"{share:.2%}"))
    schema = {"run": pl.String(), "seconds": pl.Float64(), column: pl.Float64(), "label": pl.String()}
    return pl.DataFrame(rows, schema=schema, orient="row")


def ttft_figure(runs: tuple[Run, ...], slo: SLO | None) -> list[Figure]:
    """Return the distribution of TTFT, for a report's first page; nothing if no request has a first token."""
    return _distribution(runs, "ttft", "TTFT", slo)[:1]


def _share_of(title: str) -> Axis:
    what = "gaps" if title == "ITL" else "requests"
    return Axis("share", f"share of {what}", form="%", tip=".4~%", domain=(0.0, 1.0))


def latencies(runs: tuple[Run, ...], slo: SLO | None = None) -> Section:
    """Return the section of distributions: for each latency its CDF and its tail."""
    figures: list[Figure] = []
    for metric, title in METRICS.items():
        figures += _distribution(runs, metric, title, slo)
    figures += [figure for run in runs for figure in (worst(run),) if figure is not None]
    return Section(name="latency", title="Latency", figures=tuple(figures))


def _distribution(runs: tuple[Run, ...], metric: str, title: str, slo: SLO | None) -> list[Figure]:
    frame = distributions(runs, metric)
    if frame.is_empty():
        return []
    bound = None if slo is None else slo.bounds().get(metric)
    kind = "gaps between tokens" if metric == "itl" else "requests"
    marked = "" if bound is None else _marked(frame, bound)
    return [
        Figure(
            title=f"{title}: distribution",
            note=f"Share of {kind} with at most this {title}.{marked}",
            chart=cdf_chart(frame, title, bound),
            table=_quantile_table(frame),
        ),
        Figure(
            title=f"{title}: tail",
            note=f"Share of {kind} with more than this {title}; both axes are logarithmic.{marked}",
            chart=tail_chart(frame, title, bound),
            table=_tail_table(frame),
        ),
    ]


def _marked(frame: pl.DataFrame, bound: float) -> str:
    """Return what the line of an SLO is, and each run's share within it."""
    at = shares_at(frame, bound, "share")
    several = at.height > 1
    shares = ", ".join(
        f"{run} {label}" if several else label for run, label in at.select("run", "label").iter_rows()
    )
    return f" The line is the SLO, {' '.join(duration(bound))}: {shares} within it."


def _quantile_table(frame: pl.DataFrame) -> Table:
    """Return the quantiles that a reader looks up: a row for each, a column for each run."""
    return _at(frame, SHOWN, "quantile (s)")


def _tail_table(frame: pl.DataFrame) -> Table:
    tail = {
        f"{share:.6g}": 1 - share
        for share in (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 1e-4, 1e-5)
    }
    return _at(frame, tail, "share above")


def _at(frame: pl.DataFrame, shares: dict[str, float], heading: str) -> Table:
    runs = frame["run"].unique(maintain_order=True).to_list()
    rows = []
    for name, share in shares.items():
        values = []
        for run in runs:
            of = frame.filter((pl.col("run") == run) & ((pl.col("share") - share).abs() < 1e-7))
            values.append(of["seconds"][0] if of.height else None)
        if any(value is not None for value in values):
            rows.append((name, *map(cell, values)))
    return Table((heading, *runs), tuple(rows))


def by_lengths(runs: tuple[Run, ...]) -> Section:
    """Return the section of latency by length."""
    cases = (
        ("ttft", "prompt_tokens"),
        ("e2e", "output_tokens"),
        ("tpot", "output_tokens"),
        ("e2e", "prompt_tokens"),
    )
    figures = []
    for metric, length in cases:
        frame = by_length(runs, metric, length)
        if frame.is_empty():
            continue
        title, words = METRICS[metric], length.replace("_", " ")
        figures.append(
            Figure(
                title=f"{title} by {words}",
                note="Median and 99th percentile in buckets of lengths from a power of two to the next; "
                f"a bucket of fewer than {ENOUGH} requests has no 99th percentile.",
                chart=length_chart(frame, title, length),
                table=table_of(
                    frame, ("run", "tokens from", "to", "requests", "p50 (s)", "p99 (s)", "mean (s)")
                ),
            )
        )
    return Section(name="length", title="By length", figures=tuple(figures))


def length_chart(frame: pl.DataFrame, title: str, length: str) -> Chart:
    """Chart the median and the 99th percentile of a latency by length."""
    index = ["run", "tokens", "up_to", "requests"]
    return lines(
        frame.unpivot(["p50", "p99"], index=index, variable_name="quantile", value_name="seconds").drop_nulls(
            "seconds"
        ),
        Axis("tokens", f"{length.replace('_', ' ')}, from", scale="log", form="~s", tip=","),
        Axis("seconds", f"{title} (s)", scale="log"),
        dash="quantile",
        also=(Axis("up_to", "to", tip=","), Axis("requests", "requests", tip=",")),
        places=True,
    )
