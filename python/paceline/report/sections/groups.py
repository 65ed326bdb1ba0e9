"""Requests by tenant and by priority, and those that waited longest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from paceline.report.charts.kit import Axis, bars
from paceline.report.figure import Figure, Section, Table, table_of
from paceline.report.replayed import Run
from paceline.showing.cell import cell

if TYPE_CHECKING:
    from paceline.objectives import SLO

__all__ = ["groups", "worst"]

_BY: Final = ("tenant", "priority")
_MOST: Final = 40
"""Groups of a table, those with the most requests."""

_WORST: Final = 10
_SHOWN: Final = ("ttft", "tpot", "e2e")


def groups(runs: tuple[Run, ...], slo: SLO | None) -> Section | None:
    """Return the section of latencies by tenant and by priority; None if no trace has them."""
    figures = [figure for by in _BY for figure in (_by(runs, slo, by),) if figure is not None]
    return Section(name="groups", title="By group", figures=tuple(figures)) if figures else None


def _by(runs: tuple[Run, ...], slo: SLO | None, by: str) -> Figure | None:
    frames = [_of_run(run, slo, by) for run in runs if by in run.result.names]
    frame = pl.concat(frames) if frames else pl.DataFrame()
    if frame.is_empty() or frame["group"].n_unique() < 2:
        return None
    head = ["run", by, "requests", *(f"{name.upper()} {q} (s)" for name in _SHOWN for q in ("p50", "p99"))]
    head += ["attainment"] if slo is not None else []
    tail = Axis("ttft p99", "TTFT p99 (s)")
    return Figure(
        title=f"By {by}",
        note=f"At most {_MOST} groups, those with the most requests.",
        chart=bars(frame, "group", tail, x_title=by, also=(Axis("requests", "requests", tip=","),)),
        table=table_of(frame, head, words=2),
        wide=True,
    )


def _of_run(run: Run, slo: SLO | None, by: str) -> pl.DataFrame:
    columns = {"group": run.result.column(by).cast(pl.String).fill_null("none")}
    columns |= {name: run.result.column(name) for name in _SHOWN}
    frame = pl.DataFrame(columns)
    if slo is not None:
        frame = frame.with_columns(met=run.result.met(slo))
    figures = [
        pl.col(name).quantile(share, "linear").alias(f"{name} {label}")
        for name in _SHOWN
        for label, share in (("p50", 0.5), ("p99", 0.99))
    ]
    met = [pl.col("met").mean().alias("attainment")] if slo is not None else []
    found = frame.group_by("group").agg(pl.len().cast(pl.Int64).alias("requests"), *figures, *met)
    most = found.sort("requests", descending=True).head(_MOST).sort("group")
    return most.select(pl.lit(run.name).alias("run"), pl.all())


def worst(run: Run) -> Figure | None:
    """Return the requests with the longest TTFT and the longest E2E; None without any."""
    names = [name for name in ("tenant", "session", "priority") if name in run.result.names]
    shown = ["arrival", "prompt_tokens", "output_tokens", "queueing", "ttft", "tpot", "e2e", "preemptions"]
    frame = pl.DataFrame({name: run.result.column(name) for name in (*shown, *names)}).with_row_index("row")
    rows: list[tuple[str, ...]] = []
    for metric, title in (("ttft", "TTFT"), ("e2e", "E2E")):
        longest = frame.drop_nulls(metric).sort(metric, descending=True).head(_WORST)
        rows += [(title, *(cell(value) for value in row)) for row in longest.iter_rows()]
    if not rows:
        return None
    head = ("longest", "row", "arrival (s)", "prompt", "output", "queueing (s)", "TTFT (s)", "TPOT (s)")
    return Figure(
        title=f"The requests that waited longest: {run.name}",
        note="Rows count from 0, in the order of the trace.",
        table=Table((*head, "E2E (s)", "preemptions", *names), tuple(rows)),
        wide=True,
    )
