"""Charts of lines, which is what most figures of these papers are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import polars as pl

from paceline.study.model import Figure

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

__all__ = ["COLOURS", "lines"]

# Okabe and Ito's colours, told apart by readers who do not see red and green (Color Universal Design, 2008).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")


def lines(
    name: str,
    caption: str,
    data: pl.DataFrame,
    *,
    x: str,
    y: str,
    by: str,
    panel: str | None = None,
    marks: tuple[str, ...] = (),
    level: float | None = None,
    x_scale: Literal["linear", "log"] = "linear",
    columns: int = 2,
) -> Figure:
    """Make a figure of lines: a line for each value of a column, in a panel for each value of another.

    Parameters
    ----------
    name, caption
        As of a :class:`Figure`.
    data
        A row for each point, in the order in which lines are drawn.
    x, y
        Columns; they label the axes.
    by
        The column that tells the lines apart.
    panel
        The column that tells the panels apart; ``None`` for one panel.
    marks
        Values of ``by`` that are drawn as points without a line: a paper's numbers.
    level
        A height that is marked all across.
    x_scale
        Of the x axis.
    columns
        Panels side by side.
    """

    def draw(figure: matplotlib.figure.Figure, data: pl.DataFrame) -> None:
        panels = [""] if panel is None else data[panel].unique(maintain_order=True).to_list()
        colours = dict(zip(data[by].unique(maintain_order=True).to_list(), _cycle(), strict=False))
        across = min(columns, len(panels))
        rows = -(-len(panels) // across)
        axes = figure.subplots(rows, across, squeeze=False).flatten().tolist()
        for axis, title in zip(axes, panels, strict=False):
            inside = data if panel is None else data.filter(pl.col(panel) == title)
            _draw_panel(axis, inside, str(title), colours)
        for axis in axes[len(panels) :]:
            axis.set_visible(False)

    def _draw_panel(
        axis: matplotlib.axes.Axes, inside: pl.DataFrame, title: str, colours: dict[str, str]
    ) -> None:
        for line in inside[by].unique(maintain_order=True).to_list():
            points = inside.filter(pl.col(by) == line)
            axis.plot(
                points[x].to_list(),
                points[y].to_list(),
                label=str(line),
                color=colours[line],
                marker="x" if line in marks else ".",
                linestyle="none" if line in marks else "-",
            )
        if level is not None:
            axis.axhline(level, color="0.5", linewidth=0.8)
        axis.set_title(title, fontsize="medium")
        axis.set_xlabel(x)
        axis.set_ylabel(y)
        axis.set_xscale(x_scale)
        if x_scale == "log":
            places = sorted(set(inside[x].to_list()))
            axis.set_xticks(places, [f"{place:g}" for place in places])
            axis.minorticks_off()
        axis.set_ylim(bottom=0)
        axis.grid(visible=True, color="0.9")
        axis.legend(fontsize="small")

    panels = 1 if panel is None else data[panel].n_unique()
    across = min(columns, panels)
    return Figure(
        name=name, caption=caption, data=data, draw=draw, size=(5.0 * across, 3.4 * -(-panels // across))
    )


def _cycle() -> tuple[str, ...]:
    return COLOURS * 4
