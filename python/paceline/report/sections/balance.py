"""Balance: how evenly instances were used."""

from __future__ import annotations

import polars as pl

from paceline.report.charts.kit import Axis, bars, lines
from paceline.report.data.balance import FIGURES, imbalance, of_instances
from paceline.report.figure import Figure, Section, table_of
from paceline.report.replayed import Run

__all__ = ["balance"]

_MOST_BARS = 32
_MOST_ROWS = 128


def balance(runs: tuple[Run, ...]) -> Section:
    """Return the section: a figure of an instance in each picture."""
    frame = of_instances(runs)
    summary = imbalance(frame)
    figures = [
        Figure(
            title="Spread over instances",
            note="Variation: standard deviation over mean; 0 is perfect balance.",
            table=table_of(
                summary, ("run", "figure", "least", "mean", "most", "most/mean", "variation"), words=2
            ),
            wide=True,
        )
    ]
    for column, title in FIGURES.items():
        shares = column in ("busy_share", "mean_kv_use")
        axis = Axis(column, title, form="%" if shares else "~s", tip=".1%" if shares else ",.4~r")
        figures.append(_figure(frame, column, title, axis))
    note = (
        ""
        if frame.height <= _MOST_ROWS
        else f"The first {_MOST_ROWS} of {frame.height:,} rows; result.instances has all."
    )
    head = (
        "run",
        "instance",
        *FIGURES.values(),
        "KV use, most",
        "preemptions",
        "energy (J)",
        "pool at the start",
    )
    table = table_of(frame.head(_MOST_ROWS), head, note=note)
    figures.append(Figure(title="Every instance", table=table, wide=True))
    return Section(name="balance", title="Instances", figures=tuple(figures))


def _figure(frame: pl.DataFrame, column: str, title: str, axis: Axis) -> Figure:
    if frame["instance"].n_unique() <= _MOST_BARS:
        chart = bars(frame, "instance", axis, x_title="instance")
        wide = frame.pivot("run", index="instance", values=column, maintain_order=True)
        return Figure(title=title, chart=chart, table=table_of(wide))
    # With many instances the order of their values says more than their index.
    rank = pl.col(column).rank("ordinal", descending=True).over("run").cast(pl.Int64)
    ranked = frame.select("run", rank.alias("place"), "instance", column).sort(
        "run", "place", maintain_order=True
    )
    return Figure(
        title=title,
        note="Instances in the order of this figure, the highest first.",
        chart=lines(
            ranked,
            Axis("place", "place", form="~s", tip=","),
            axis,
            also=(Axis("instance", "instance", tip="d"),),
        ),
        table=table_of(ranked, most=_MOST_ROWS),
    )
