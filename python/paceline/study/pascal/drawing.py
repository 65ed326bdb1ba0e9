"""Charts of bars, stacked bars and points, in panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import polars as pl

from paceline.study.charts import COLOURS
from paceline.study.model import Figure

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

__all__ = ["bars", "curves", "points", "stacks"]

_Panel = Callable[["matplotlib.axes.Axes", pl.DataFrame], None]


def bars(
    name: str,
    caption: str,
    data: pl.DataFrame,
    *,
    x: str,
    y: str,
    by: str,
    panel: str,
    columns: int = 2,
    size: tuple[float, float] = (4.2, 3.2),
) -> Figure:
    """Make a figure of bars: a group for each value of ``x``, in it a bar for each value of ``by``."""
    colours = dict(zip(_values(data, by), COLOURS, strict=False))

    def draw(axis: matplotlib.axes.Axes, inside: pl.DataFrame) -> None:
        places, series = _values(inside, x), _values(inside, by)
        width = 0.8 / len(series)
        for index, one in enumerate(series):
            rows = inside.filter(pl.col(by) == one)
            at = [places.index(value) + (index - (len(series) - 1) / 2) * width for value in rows[x]]
            axis.bar(at, rows[y].to_list(), width=width, label=str(one), color=colours[one])
        axis.set_xticks(range(len(places)), [str(place) for place in places])
        axis.set_xlabel(x)
        axis.set_ylabel(y)
        # Room above the bars for the legend.
        axis.set_ylim(0, 1.18 * axis.get_ylim()[1])
        axis.legend(fontsize="small", loc="upper left", ncols=len(series))

    return _panels(name, caption, data, panel, draw, columns, size)


def stacks(
    name: str,
    caption: str,
    data: pl.DataFrame,
    *,
    x: str,
    by: str,
    parts: Sequence[str],
    y: str,
    mark: str,
    size: tuple[float, float] = (11.0, 4.0),
) -> Figure:
    """Make a figure of stacked bars, made of the columns ``parts``.

    There is a group for each value of ``x``, in it a bar for each of ``by``, told apart by its hatching.
    ``y`` labels the left axis; ``mark`` is a column drawn as triangles on the right one.
    """
    shades = dict(zip(parts, ("#333333", "#D55E00", "#E69F00"), strict=False))
    hatches = dict(zip(_values(data, by), ("", "//", "xx"), strict=False))

    def draw(axis: matplotlib.axes.Axes, inside: pl.DataFrame) -> None:
        from matplotlib.patches import Patch

        places, series = _values(inside, x), _values(inside, by)
        width = 0.8 / len(series)
        right = axis.twinx()
        for index, one in enumerate(series):
            rows = inside.filter(pl.col(by) == one)
            at = [places.index(value) + (index - (len(series) - 1) / 2) * width for value in rows[x]]
            floor = [0.0] * len(at)
            for part in parts:
                heights = rows[part].to_list()
                axis.bar(
                    at,
                    heights,
                    bottom=floor,
                    width=width * 0.92,
                    color=shades[part],
                    hatch=hatches[one],
                    edgecolor="white",
                    linewidth=0.3,
                )
                floor = [low + height for low, height in zip(floor, heights, strict=True)]
            right.plot(at, rows[mark].to_list(), "^", color="#009E73", markersize=3)
        axis.set_xticks(range(len(places)), [str(place) for place in places])
        axis.set_xlabel(x)
        axis.set_ylabel(y)
        right.set_ylabel(f"{mark} (triangles)", color="#009E73")
        right.set_ylim(bottom=0)
        keys = [Patch(facecolor=shades[part], label=part) for part in parts]
        keys += [
            Patch(facecolor="0.6", edgecolor="white", hatch=hatches[one], label=str(one)) for one in series
        ]
        axis.legend(
            handles=keys, fontsize="small", ncols=len(keys), loc="lower left", bbox_to_anchor=(0.0, 1.0)
        )

    return _panels(name, caption, data, None, draw, 1, size)


def curves(
    name: str,
    caption: str,
    data: pl.DataFrame,
    *,
    x: str,
    y: str,
    by: str,
    panel: str,
    columns: int = 3,
    size: tuple[float, float] = (4.6, 3.2),
) -> Figure:
    """Make a figure of curves over a logarithmic axis, one for each value of ``by``."""
    colours = dict(zip(_values(data, by), COLOURS, strict=False))

    def draw(axis: matplotlib.axes.Axes, inside: pl.DataFrame) -> None:
        for one in _values(inside, by):
            rows = inside.filter(pl.col(by) == one)
            axis.plot(rows[x].to_list(), rows[y].to_list(), color=colours[one], label=str(one))
        axis.set_xscale("log")
        axis.set_xlabel(x)
        axis.set_ylabel(y)
        axis.set_ylim(0, 1)
        axis.legend(fontsize="small")

    return _panels(name, caption, data, panel, draw, columns, size)


def points(
    name: str,
    caption: str,
    data: pl.DataFrame,
    *,
    x: str,
    y: str,
    by: str,
    panel: str,
    columns: int = 3,
    size: tuple[float, float] = (4.2, 3.2),
) -> Figure:
    """Make a figure of points, coloured by ``by``, in a panel for each value of ``panel``."""
    colours = dict(zip(_values(data, by), COLOURS, strict=False))

    def draw(axis: matplotlib.axes.Axes, inside: pl.DataFrame) -> None:
        for one in _values(inside, by):
            rows = inside.filter(pl.col(by) == one)
            axis.plot(
                rows[x].to_list(),
                rows[y].to_list(),
                ".",
                color=colours[one],
                label=str(one),
                markersize=3,
                alpha=0.6,
                markeredgewidth=0,
            )
        axis.set_xlabel(x)
        axis.set_ylabel(y)
        axis.set_xlim(left=0)
        axis.set_ylim(bottom=0)
        axis.legend(fontsize="small", markerscale=3)

    return _panels(name, caption, data, panel, draw, columns, size)


def _panels(
    name: str,
    caption: str,
    data: pl.DataFrame,
    panel: str | None,
    draw: _Panel,
    columns: int,
    size: tuple[float, float],
) -> Figure:
    titles = [""] if panel is None else _values(data, panel)
    across = min(columns, len(titles))
    down = -(-len(titles) // across)

    def drawn(figure: matplotlib.figure.Figure, data: pl.DataFrame) -> None:
        axes = figure.subplots(down, across, squeeze=False).flatten().tolist()
        for axis, title in zip(axes, titles, strict=False):
            draw(axis, data if panel is None else data.filter(pl.col(panel) == title))
            axis.set_title(str(title), fontsize="medium")
            axis.grid(visible=True, axis="y", color="0.9")
            axis.set_axisbelow(True)
        for axis in axes[len(titles) :]:
            axis.set_visible(False)

    return Figure(name=name, caption=caption, data=data, draw=drawn, size=(size[0] * across, size[1] * down))


def _values(data: pl.DataFrame, column: str) -> list[object]:
    return data[column].unique(maintain_order=True).to_list()
