"""Charts of a study: lines, curves, points, bars and stacked bars, in panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from paceline.study.model import Figure

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

__all__ = ["COLOURS", "bars", "curves", "lines", "points", "stacks"]

# Okabe and Ito's colours, told apart by readers who do not see red and green (Color Universal Design, 2008).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")

_SHADES = ("#333333", "#D55E00", "#E69F00")
_HATCHES = ("", "//", "xx")

_Panel: TypeAlias = "Callable[[matplotlib.axes.Axes, pl.DataFrame], None]"
_Size: TypeAlias = tuple[float, float]


def lines(
    data: pl.DataFrame,
    *,
    x: str,
    y: str,
    by: str,
    panel: str | None = None,
    marks: tuple[str, ...] = (),
    level: float | None = None,
    x_scale: Literal["linear", "log"] = "linear",
    y_scale: Literal["linear", "log"] = "linear",
    columns: int = 2,
    size: _Size = (5.0, 3.4),
) -> Figure:
    """Make a figure of lines: a line for each value of a column, in a panel for each value of another.

    Parameters
    ----------
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
    x_scale, y_scale
        Of the axes; a linear y axis begins at 0.
    columns
        Panels side by side.
    size
        Inches of a panel.
    """

    def draw(axis: matplotlib.axes.Axes, inside: pl.DataFrame) -> None:
        for one in _values(inside, by):
            mark: dict[str, Any] = {"marker": "x", "linestyle": "none"} if one in marks else {"marker": "."}
            _plot(axis, inside.filter(pl.col(by) == one), x, y, label=str(one), color=colours[one], **mark)
        if level is not None:
            axis.axhline(level, color="0.5", linewidth=0.8)
        axis.set_xscale(x_scale)
        if x_scale == "log":
            places = sorted(set(inside[x].to_list()))
            axis.set_xticks(places, [f"{place:g}" for place in places])
            axis.minorticks_off()
        axis.set_yscale(y_scale)
        if y_scale == "linear":
            axis.set_ylim(bottom=0)
        axis.legend(fontsize="small")

    colours = _colours(data, by)
    return _figure(data, panel, draw, columns, size)


def curves(data: pl.DataFrame, *, x: str, y: str, by: str, panel: str, columns: int = 3) -> Figure:
    """Make a figure of shares, from 0 to 1, over a logarithmic axis; the arguments are those of `lines`."""

    def draw(axis: matplotlib.axes.Axes, inside: pl.DataFrame) -> None:
        for one in _values(inside, by):
            _plot(axis, inside.filter(pl.col(by) == one), x, y, color=colours[one], label=str(one))
        axis.set_xscale("log")
        axis.set_ylim(0, 1)
        axis.legend(fontsize="small")

    colours = _colours(data, by)
    return _figure(data, panel, draw, columns, (4.6, 3.2))


def points(data: pl.DataFrame, *, x: str, y: str, by: str, panel: str, columns: int = 3) -> Figure:
    """Make a figure of many points, without lines; the arguments are those of `lines`."""

    def draw(axis: matplotlib.axes.Axes, inside: pl.DataFrame) -> None:
        small = {"marker": ".", "linestyle": "none", "markersize": 3, "alpha": 0.6, "markeredgewidth": 0}
        for one in _values(inside, by):
            _plot(axis, inside.filter(pl.col(by) == one), x, y, color=colours[one], label=str(one), **small)
        axis.set_xlim(left=0)
        axis.set_ylim(bottom=0)
        axis.legend(fontsize="small", markerscale=3)

    colours = _colours(data, by)
    return _figure(data, panel, draw, columns, (4.2, 3.2))


def bars(
    data: pl.DataFrame,
    *,
    x: str,
    y: str,
    by: str,
    panel: str | None = None,
    columns: int = 2,
    size: _Size = (4.2, 3.2),
) -> Figure:
    """Make a figure of bars: a group for each value of ``x``, in it a bar for each value of ``by``."""

    def draw(axis: matplotlib.axes.Axes, inside: pl.DataFrame) -> None:
        for one, at, rows, width in _grouped(axis, inside, x, by):
            axis.bar(at, rows[y].to_list(), width=width, label=str(one), color=colours[one])
        axis.set_xlabel(x)
        axis.set_ylabel(y)
        # Room above the bars for the legend, three names a line.
        axis.set_ylim(0, (1 + 0.18 * -(-len(colours) // 3)) * axis.get_ylim()[1])
        axis.legend(fontsize="small", loc="upper left", ncols=3)

    colours = _colours(data, by)
    return _figure(data, panel, draw, columns, size)


def stacks(
    data: pl.DataFrame,
    *,
    x: str,
    by: str,
    parts: Sequence[str],
    y: str,
    mark: str,
    size: _Size = (11.0, 4.0),
) -> Figure:
    """Make a figure of stacked bars, made of the columns ``parts``.

    There is a group for each value of ``x``, in it a bar for each of ``by``, told apart by its hatching.
    ``y`` labels the left axis; ``mark`` is a column drawn as triangles on the right one.
    """
    shades = dict(zip(parts, _SHADES, strict=False))
    hatches = dict(zip(_values(data, by), _HATCHES, strict=False))

    def draw(axis: matplotlib.axes.Axes, inside: pl.DataFrame) -> None:
        from matplotlib.patches import Patch

        right = axis.twinx()
        for one, at, rows, width in _grouped(axis, inside, x, by):
            floor = [0.0] * len(at)
            look: dict[str, Any] = {
                "width": 0.92 * width,
                "hatch": hatches[one],
                "edgecolor": "white",
                "linewidth": 0.3,
            }
            for part in parts:
                heights = rows[part].to_list()
                axis.bar(at, heights, bottom=floor, color=shades[part], **look)
                floor = [low + height for low, height in zip(floor, heights, strict=True)]
            right.plot(at, rows[mark].to_list(), "^", color="#009E73", markersize=3)
        axis.set_xlabel(x)
        axis.set_ylabel(y)
        right.set_ylabel(f"{mark} (triangles)", color="#009E73")
        right.set_ylim(bottom=0)
        keys = [Patch(facecolor=shade, label=part) for part, shade in shades.items()]
        grey = partial(Patch, facecolor="0.6", edgecolor="white")
        keys += [grey(hatch=hatch, label=str(one)) for one, hatch in hatches.items()]
        above: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
        axis.legend(handles=keys, fontsize="small", ncols=len(keys), **above)

    return _figure(data, None, draw, 1, size)


def _figure(data: pl.DataFrame, panel: str | None, draw: _Panel, columns: int, size: _Size) -> Figure:
    """Make a figure that calls ``draw`` with the axes and the rows of each panel."""
    titles = [""] if panel is None else _values(data, panel)
    across = min(columns, len(titles))
    down = -(-len(titles) // across)

    def drawn(figure: matplotlib.figure.Figure, data: pl.DataFrame) -> None:
        axes = figure.subplots(down, across, squeeze=False).flatten().tolist()
        for axis, title in zip(axes, titles, strict=False):
            draw(axis, data if panel is None else data.filter(pl.col(panel) == title))
            axis.set_title(str(title), fontsize="medium")
            axis.grid(visible=True, color="0.9")
            axis.set_axisbelow(True)
        for axis in axes[len(titles) :]:
            axis.set_visible(False)

    return Figure(data, drawn, (size[0] * across, size[1] * down))


def _grouped(
    axis: matplotlib.axes.Axes, data: pl.DataFrame, x: str, by: str
) -> list[tuple[object, list[float], pl.DataFrame, float]]:
    """Return for each value of ``by`` where its bars stand, its rows, and the width of a bar."""
    places, series = _values(data, x), _values(data, by)
    width = 0.8 / len(series)
    axis.set_xticks(range(len(places)), [str(place) for place in places])
    found = []
    for index, one in enumerate(series):
        rows = data.filter(pl.col(by) == one)
        at = [places.index(value) + (index - (len(series) - 1) / 2) * width for value in rows[x]]
        found.append((one, at, rows, width))
    return found


def _plot(axis: matplotlib.axes.Axes, rows: pl.DataFrame, x: str, y: str, **look: Any) -> None:  # noqa: ANN401 - matplotlib's
    axis.plot(rows[x].to_list(), rows[y].to_list(), **look)
    axis.set_xlabel(x)
    axis.set_ylabel(y)


def _colours(data: pl.DataFrame, column: str) -> dict[object, str]:
    return dict(zip(_values(data, column), COLOURS * 4, strict=False))


def _values(data: pl.DataFrame, column: str) -> list[object]:
    return data[column].unique(maintain_order=True).to_list()
