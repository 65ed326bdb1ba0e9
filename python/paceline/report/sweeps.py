"""The report of a sweep: what each configuration reached, against a rate or another number."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import polars as pl

from paceline import _check, _core
from paceline.comparing.student import mean_interval
from paceline.errors import ConfigError, ResultError
from paceline.report.charts.kit import Axis, bars, lines
from paceline.report.figure import Figure, Section, table_of
from paceline.report.libraries import altair
from paceline.report.page.assemble import assemble
from paceline.report.page.writing import page_file, write_page
from paceline.sweeping.dataset import read_sweep
from paceline.sweeping.measure import schema_of

__all__ = ["axes_of", "summarised", "sweep_page", "write_sweep_report"]

_SHOWN: Final = {
    "attainment": ("Attainment", "attainment", "%"),
    "goodput": ("Goodput", "requests/s within the SLO", ",.4~r"),
    "ttft_p99": ("TTFT p99", "TTFT p99 (s)", ",.4~r"),
    "tpot_p99": ("TPOT p99", "TPOT p99 (s)", ",.4~r"),
    "e2e_p50": ("E2E p50", "E2E p50 (s)", ",.4~r"),
    "output_tokens_per_s": ("Output tokens", "output tokens/s", "~s"),
    "mean_kv_use": ("KV use", "share of KV blocks in use, mean", "%"),
    "preemptions": ("Preemptions", "preemptions", ",.4~r"),
}
"""Figures of a point that are drawn: title, axis and format."""

_CONFIDENCE: Final = 0.95
_FIXED: Final = frozenset(schema_of({})) - {"trace"}


def write_sweep_report(
    folder: str | os.PathLike[str], path: str | os.PathLike[str], *, title: str | None = None
) -> Path:
    """Write a report of a sweep to one HTML file.

    Each figure of a point is drawn against the first axis with numbers that is not the seed, mostly the rate,
    with a line for each combination of the other axes. Points that differ by their seed only are one: their
    mean, and the 95% interval of Student's t around it.

    Parameters
    ----------
    folder
        The folder of the sweep, of a running one too.
    path
        The HTML file; an older file is replaced.
    title
        The page's title; made from the axes if not given.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    ConfigError
        If an argument has a wrong type.
    ResultError
        If the folder is no sweep's, none of its points has been replayed, or the file cannot be written.

    Examples
    --------
    >>> from paceline.report import write_sweep_report
    >>> write_sweep_report("sweeps/rates", "rates.html")  # doctest: +SKIP
    """
    if title is not None:
        _check.text("title", title)
    given: dict[str, object] = {"folder": folder, "path": path}
    for name, where in given.items():
        if not isinstance(where, str | os.PathLike) or isinstance(os.fspath(where), bytes):
            raise ConfigError(f"{name} must be a path, was {_check.said(where)}")
        _check.path(where)
    target = page_file(path)
    return write_page(sweep_page(read_sweep(folder), title=title, name=str(folder)), target)


def sweep_page(rows: pl.DataFrame, *, title: str | None = None, name: str = "sweep") -> str:
    """Return the report's page of a sweep's rows, as `read_sweep` gives them."""
    done = rows.filter(pl.col("status") == "done")
    if done.is_empty():
        raise ResultError(
            f"{name}: must have a point that has been replayed, had {rows.height} rows and none done"
        )
    axis, others = axes_of(done)
    seeds = done["seed"].n_unique() if "seed" in done.columns else 1
    with altair().utils.schemapi.debug_mode(False):
        figures = [
            figure
            for column in _SHOWN
            for figure in (_figure(done, column, axis, others),)
            if figure is not None
        ]
        varied = ", ".join([*([axis] if axis else []), *others]) or "nothing"
        failed = rows.height - done.height
        lead = f"{done.height:,} replays; varied: {varied}" + (
            f"; {seeds:,} seeds each." if seeds > 1 else "."
        )
        return assemble(
            title=title or f"Sweep over {varied}",
            lead=lead,
            version=_core.VERSION,
            cards=(),
            warnings=[f"{failed:,} points failed or are missing; {name} says why."] if failed else [],
            sections=[
                Section(name="sweep", title="Figures", figures=tuple(figures)),
                Section(name="points", title="Every point", figures=(_points(done, axis, others),)),
            ],
            inputs=[],
        )


def axes_of(done: pl.DataFrame) -> tuple[str | None, list[str]]:
    """Return the axis of numbers to draw against, if there is one, and the other axes with several values."""
    varied = [
        name for name in done.columns if name not in _FIXED and name != "seed" and done[name].n_unique() > 1
    ]
    numbers = [name for name in varied if done[name].dtype.is_numeric() and not done[name].null_count()]
    axis = "rate" if "rate" in numbers else next(iter(numbers), None)
    return axis, [name for name in varied if name != axis]


def summarised(done: pl.DataFrame, column: str, axis: str | None, others: list[str]) -> pl.DataFrame:
    """Return ``series``, the axis, ``replays``, ``mean``, ``low`` and ``high``: a row for each configuration.

    The ends are null with a single replay.
    """
    keys = [*others, *([axis] if axis else [])]
    named = done.with_columns(_label(others).alias("series")).drop_nulls(column)
    rows = []
    for _, group in named.group_by(keys or ["series"], maintain_order=True):
        mean, low, high = mean_interval(group[column].cast(pl.Float64).to_numpy(), _CONFIDENCE)
        place = group[axis][0] if axis else None
        rows.append((group["series"][0], place, group.height, mean, low, high))
    schema = {
        "series": pl.String(),
        axis or "axis": pl.Float64(),
        "replays": pl.Int64(),
        **dict.fromkeys(("mean", "low", "high"), pl.Float64()),
    }
    frame = pl.DataFrame(rows, schema=schema, orient="row", strict=False).fill_nan(None)
    return frame.sort("series", axis, maintain_order=True) if axis else frame


def _label(others: list[str]) -> pl.Expr:
    if not others:
        return pl.lit("all")
    parts = [
        pl.col(name).cast(pl.String).fill_null("none")
        if name in ("policy", "cluster", "trace")
        else pl.format(f"{name}={{}}", pl.col(name).cast(pl.String).fill_null("none"))
        for name in others
    ]
    return pl.concat_str(parts, separator=", ")


def _figure(done: pl.DataFrame, column: str, axis: str | None, others: list[str]) -> Figure | None:
    if done[column].null_count() == done.height:
        return None
    title, unit, form = _SHOWN[column]
    frame = summarised(done, column, axis, others)
    share = form == "%"
    y = Axis("mean", unit, form=form, tip=".2%" if share else ",.4~r")
    table = table_of(frame if axis else frame.drop("axis"), words=1)
    replays = Axis("replays", "replays", tip=",")
    note = "Mean over seeds; the area is its 95% interval." if frame["low"].count() else ""
    if axis is None:
        return Figure(
            title=title, chart=bars(frame, "series", y, by="series", x_title=""), table=table, note=note
        )
    filled = frame.with_columns(pl.col("low", "high").fill_null(pl.col("mean")))
    chart = lines(
        filled,
        Axis(axis, axis, zero=False),
        y,
        by="series",
        also=(replays,),
        places=True,
        band=("low", "high") if note else None,
        named=True,
    )
    return Figure(title=f"{title} by {axis}", chart=chart, table=table, note=note)


def _points(done: pl.DataFrame, axis: str | None, others: list[str]) -> Figure:
    keys = [*others, *([axis] if axis else []), *(["seed"] if "seed" in done.columns else [])]
    shown = [name for name in _SHOWN if done[name].null_count() < done.height]
    table = table_of(done.select(*keys, *shown), words=len(others))
    return Figure(title="Every point", table=table, wide=True)
