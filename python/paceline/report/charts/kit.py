"""Chart forms that reports share: lines with a nearest point, and bars.

Scales, axes and legends are dictionaries: an object of Altair's has all fields, and takes longer to write.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import polars as pl

from paceline.report.charts.layers import layered
from paceline.report.charts.rows import inline
from paceline.report.charts.theme import DASHES
from paceline.report.libraries import altair

if TYPE_CHECKING:
    import altair as alt

__all__ = [
    "MOST_TOGETHER",
    "Axis",
    "Chart",
    "Scale",
    "bars",
    "in_time",
    "intervals",
    "lines",
    "panels",
    "spans",
    "stacked_areas",
    "stacked_bars",
]

Chart: TypeAlias = "alt.Chart | alt.LayerChart"
Scale: TypeAlias = Literal["linear", "log", "symlog", "sqrt"]

_WIDTH, _HEIGHT, _SMALL = 460, 240, 130
_POINTS: Final = "points_0"
"""The layer of points in `lines`: beside other charts, Altair counts such a name up."""


class Axis:
    """One axis of a chart: the column that it shows, its title, its scale and the format of its numbers.

    Parameters
    ----------
    column
        A numeric column.
    title
        What it is, with its unit.
    scale
        ``log`` becomes ``symlog`` if the column has zeros.
    form
        A format of d3: ``,.4~r``, ``%``, ``~s``.
    tip
        The format in tooltips; the same if not given.
    zero
        Whether the axis starts at zero.
    domain
        The lowest and the highest value shown, if not those of the data.
    """

    def __init__(
        self,
        column: str,
        title: str,
        *,
        scale: Scale = "linear",
        form: str = ",.4~r",
        tip: str = ",.4~r",
        zero: bool = True,
        domain: tuple[float, float] | None = None,
        reverse: bool = False,
    ) -> None:
        self.column, self.title, self.scale, self.form, self.tip = column, title, scale, form, tip
        self.zero, self.domain, self.reverse = zero and scale == "linear", domain, reverse

    def scaled(self, frame: pl.DataFrame) -> dict[str, Any]:
        """Return the arguments of Altair's channel."""
        kind: str = self.scale
        title = self.title
        more: dict[str, Any] = {}
        if kind == "log":
            values = frame[self.column].drop_nulls().drop_nans()
            least = values.filter(values > 0).min()
            if len(values.filter(values <= 0)):
                kind = "symlog"
                constant = float(least) if isinstance(least, float | int) else 1.0
                more["constant"] = constant
                title = f"{title}, linear from 0 to {constant:.3g}"
        if self.domain is not None:
            more["domain"] = list(self.domain)
        if self.reverse:
            more["reverse"] = True
        if kind == "linear":
            more["zero"] = self.zero
        scale = {"type": kind, "nice": kind != "log", **more}
        axis = {"format": self.form, "tickCount": 6, "labelOverlap": True, "labelFlush": True}
        return {"type": "quantitative", "title": title, "scale": scale, "axis": axis}

    def tooltip(self) -> Any:  # noqa: ANN401 - Altair's
        """Return the line of a tooltip."""
        return altair().Tooltip(field=self.column, type="quantitative", title=self.title, format=self.tip)


def lines(
    frame: pl.DataFrame,
    x: Axis,
    y: Axis,
    *,
    by: str = "run",
    dash: str | None = None,
    step: bool = False,
    also: Sequence[Axis] = (),
    level: float | None = None,
    places: bool = False,
    band: tuple[str, str] | None = None,
    marks: pl.DataFrame | None = None,
    named: bool = False,
) -> Chart:
    """Draw a line for each value of ``by``, with the point nearest to the pointer marked and named.

    Parameters
    ----------
    dash
        A column that tells dashes apart; if not given, dashes follow ``by``.
    step
        Whether a value holds until the next one.
    also
        Further columns of the tooltip.
    level
        A height that is marked all across.
    places
        Whether every point is marked.
    band
        The columns of the lowest and the highest value around each point, drawn as an area behind the line.
    marks
        Points with a ``label``, in the columns of the axes and ``by``; a vertical line goes through each.
    named
        Whether each line has its name beside it, in place of a legend.
    """
    alt = altair()
    names, dashes = _values(frame, by), _values(frame, dash or by)
    nearest = alt.selection_point(
        name="nearest",
        nearest=True,
        on="pointerover",
        clear="pointerout",
        empty=False,
        encodings=["x", "y"],
    )
    # In a tooltip of the nearest point, Vega-Lite reads words from the mark, not from its row: so the name
    # of a line is the description of its points, in the row and in the mark alike.
    parts = [pl.col(column).cast(pl.String) for column in dict.fromkeys((by, dash or by)) if column]
    described = frame.with_columns(
        pl.concat_str(parts, separator=", ", ignore_nulls=True).alias("description")
    )
    base = alt.Chart(inline(described)).encode(
        x=alt.X(field=x.column, **x.scaled(frame)),
        y=alt.Y(field=y.column, **y.scaled(frame)),
        color=_colour(by, names, legend=len(names) > 1 and not named, symbol="stroke"),
    )
    strokes = alt.StrokeDash(
        field=dash or by,
        type="nominal",
        sort=None,
        scale={"domain": dashes, "range": [DASHES[place % len(DASHES)] for place in range(len(dashes))]},
        legend={"title": None, "symbolType": "stroke"} if len(dashes) > 1 and not named else None,
    )
    drawn = base.mark_line(interpolate="step-before" if step else "linear", clip=True).encode(
        strokeDash=strokes
    )
    several = [column for column, values in ((by, names), (dash, dashes)) if column and len(values) > 1]
    tips = [_tip("description", several[0])] if several else []
    condition = alt.condition(nearest, alt.value(1.0), alt.value(0.0))
    shown = alt.OpacityValue(1.0) if places else alt.OpacityValue(**condition)
    points = (
        base.mark_point(filled=True, size=45 if frame.height < 40 * len(names) else 16, clip=True)
        .encode(
            description=alt.Description(field="description", type="nominal"),
            opacity=shown,
            tooltip=[*tips, x.tooltip(), y.tooltip(), *(one.tooltip() for one in also)],
        )
        .properties(name=_POINTS)
    )
    among = alt.TopLevelSelectionParameter(name=nearest.name, select=nearest.param.select, views=[_POINTS])
    layers = [drawn, points]
    if band is not None:
        low, high = band
        area = base.mark_area(opacity=0.25, interpolate="step-before" if step else "linear", clip=True)
        layers.insert(0, area.encode(y=alt.Y(field=low, **y.scaled(frame)), y2=alt.Y2(field=high)))
    if marks is not None and marks.height:
        layers += _marked(marks, x, y, _colour(by, names, legend=len(names) > 1, symbol="stroke"))
    if named and len(names) > 1:
        layers += _named(frame, x, y, by)
    if level is not None:
        rule = alt.Chart(alt.InlineData(values=[{"level": level}])).mark_rule(strokeDash=[3, 3], opacity=0.7)
        layers.append(rule.encode(y=alt.Y(field="level", type="quantitative", title=y.title)))
    return _layered(layers, params=[among])


def _marked(marks: pl.DataFrame, x: Axis, y: Axis, colour: Any) -> list[Any]:  # noqa: ANN401 - Altair's
    """Return a vertical line through each mark, its point, and its label beside it."""
    alt = altair()
    base = alt.Chart(inline(marks))
    across = alt.X(field=x.column, type="quantitative")
    up = alt.Y(field=y.column, type="quantitative")
    return [
        base.mark_rule(strokeDash=[3, 3], opacity=0.7).encode(x=across),
        base.mark_point(filled=True, size=50, opacity=1).encode(x=across, y=up, color=colour),
        base.mark_text(align="left", dx=6, dy=8, clip=False).encode(
            x=across, y=up, color=colour, text=alt.Text(field="label", type="nominal")
        ),
    ]


def _named(frame: pl.DataFrame, x: Axis, y: Axis, by: str) -> list[Any]:
    """Return the names of lines, each beside its point nearest to the middle height, where most are apart."""
    alt = altair()
    heights = frame[y.column].drop_nulls()
    low, high = heights.min(), heights.max()
    if not (isinstance(low, int | float) and isinstance(high, int | float)):
        return []
    nearest = (pl.col(y.column) - (low + high) / 2).abs()
    one_each = frame.drop_nulls(y.column).sort(nearest, maintain_order=True)
    points = one_each.unique(by, keep="first", maintain_order=True)
    # Lines that meet there share a label.
    joined = points.group_by(x.column, y.column, maintain_order=True).agg(
        pl.col(by).str.join(", ").alias("label"), pl.col(by).first()
    )
    names = _values(frame, by)
    layers = []
    places = frame[x.column].log() if x.scale == "log" else frame[x.column]
    middle = (places.min() + places.max()) / 2  # type: ignore[operator]
    for place, row in enumerate(joined.sort(x.column).iter_slices(1)):
        # On the side with more room, each lower than the one before it.
        at = row[x.column].log().item() if x.scale == "log" else row[x.column].item()
        side = "left" if at < middle else "right"
        text = alt.Chart(inline(row)).mark_text(
            align=side, dx=10 if side == "left" else -10, dy=17 * place, fontWeight=600
        )
        layers.append(
            text.encode(
                x=alt.X(field=x.column, type="quantitative"),
                y=alt.Y(field=y.column, type="quantitative"),
                color=_colour(by, names, legend=False),
                text=alt.Text(field="label", type="nominal"),
            )
        )
    return layers


MOST_TOGETHER: Final = 4
"""How many runs share a picture of lines over time; more have a small panel each."""


def panels(
    frame: pl.DataFrame,
    x: Axis,
    y: Axis,
    *,
    by: str = "run",
    **more: Any,  # noqa: ANN401 - of `lines`
) -> tuple[tuple[str, Chart], ...]:
    """Draw `lines` for each value of ``by`` apart, on equal axes.

    Parameters
    ----------
    frame, x, y, by
        As for `lines`.
    more
        Its other arguments.

    Returns
    -------
    tuple
        Each value with its picture.
    """
    x, y = (_over(frame, axis, more.get("band") if axis is y else None) for axis in (x, y))
    return tuple(
        (str(name), _sized(lines(frame.filter(pl.col(by) == name), x, y, by=by, **more), height=_SMALL))
        for name in _values(frame, by)
    )


def _over(frame: pl.DataFrame, axis: Axis, band: tuple[str, str] | None) -> Axis:
    """Return an axis with the domain of all values, so that it is the same for each part of the frame."""
    if axis.domain is not None:
        return axis
    values = pl.concat([frame[column].cast(pl.Float64) for column in (axis.column, *(band or ()))])
    values = values.drop_nulls().drop_nans()
    if axis.scale == "log":
        values = values.filter(values > 0)
    low, high = values.min(), values.max()
    if not (isinstance(low, float) and isinstance(high, float)) or low == high:
        return axis
    domain = (min(low, 0.0) if axis.zero else low, high)
    return Axis(
        axis.column,
        axis.title,
        scale=axis.scale,
        form=axis.form,
        tip=axis.tip,
        zero=axis.zero,
        domain=domain,
        reverse=axis.reverse,
    )


def in_time(frame: pl.DataFrame, title: str) -> tuple[pl.DataFrame, Axis]:
    """Return a frame with ``time_s`` also as ``time``, and its axis: seconds, minutes, hours or days.

    Parameters
    ----------
    frame
        A frame with a column ``time_s`` in seconds.
    title
        What the moments are; the unit is added.
    """
    last = frame["time_s"].max() if frame.height else 0.0
    longest = float(last) if isinstance(last, int | float) else 0.0
    unit, seconds = next(
        (unit, seconds) for unit, seconds, most in _UNITS_OF_TIME if longest <= most or most == math.inf
    )
    form = "~s" if unit == "s" else ",.4~r"
    timed = frame.with_columns((pl.col("time_s") / seconds).alias("time"))
    return timed, Axis("time", f"{title} ({unit})", form=form, tip=",.6~r")


_UNITS_OF_TIME: Final = (
    ("s", 1.0, 1_200.0),
    ("min", 60.0, 7_200.0),
    ("h", 3_600.0, 259_200.0),
    ("days", 86_400.0, math.inf),
)
"""Units of a time axis, their seconds, and up to which span each is used."""


def bars(
    frame: pl.DataFrame, x: str, y: Axis, *, by: str = "run", x_title: str, also: Sequence[Axis] = ()
) -> Chart:
    """Draw a group of bars for each value of ``x``, in it a bar for each value of ``by``."""
    alt = altair()
    names, places = _values(frame, by), _values(frame, x)
    tips = [_tip(by)] if len(names) > 1 else []
    channels: dict[str, Any] = {
        "x": alt.X(
            field=x,
            type="nominal",
            sort=places,
            title=x_title,
            axis={"labelAngle": 0, "labelOverlap": True},
        ),
        "y": alt.Y(field=y.column, **y.scaled(frame)),
        "color": _colour(by, names, legend=len(names) > 1),
        "tooltip": [*tips, _tip(x, x_title), y.tooltip(), *(one.tooltip() for one in also)],
    }
    if len(names) > 1:
        channels["xOffset"] = alt.XOffset(field=by, type="nominal", sort=names)
    return _sized(alt.Chart(inline(frame)).mark_bar().encode(**channels))


def spans(frame: pl.DataFrame, title: str, y: Axis) -> Chart:
    """Draw a bar from ``from`` to ``to`` for each row."""
    alt = altair()
    ends = [
        alt.Tooltip(field=name, type="quantitative", title=name, format=",.4~r") for name in ("from", "to")
    ]
    chart = (
        alt.Chart(inline(frame))
        .mark_bar()
        .encode(
            x=alt.X(field="from", type="quantitative", title=title, bin="binned"),
            x2=alt.X2(field="to"),
            y=alt.Y(field=y.column, **y.scaled(frame)),
            tooltip=[*ends, y.tooltip()],
        )
    )
    return _sized(chart)


def intervals(frame: pl.DataFrame, x: Axis, *, by: str, names: Sequence[str], level: float) -> Chart:
    """Draw a point, and a bar from ``low`` to ``high``, for each value of ``figure`` and of ``by``.

    Parameters
    ----------
    names
        All names that have colours in the report, so that each keeps its own.
    level
        A place on the axis that is marked from top to bottom.
    """
    alt = altair()
    drawn, figures = _values(frame, by), _values(frame, "figure")
    rows = alt.Y(
        field="figure", type="nominal", sort=figures, title=None, axis={"labelLimit": 180, "grid": True}
    )
    beside = alt.YOffset(field=by, type="nominal", sort=drawn)
    colour = alt.Color(
        field=by,
        type="nominal",
        scale={"domain": list(names)},
        legend={"title": None, "symbolType": "stroke", "values": drawn},
    )
    ends = [
        alt.Tooltip(field=end, type="quantitative", title=title, format=x.tip)
        for end, title in (("low", "from"), ("high", "to"))
    ]
    base = alt.Chart(inline(frame)).encode(
        y=rows,
        yOffset=beside,
        color=colour,
        tooltip=[_tip(by), _tip("figure"), x.tooltip(), *ends],
    )
    place = x.scaled(frame)
    bars_ = base.mark_rule(strokeWidth=2.5).encode(x=alt.X(field="low", **place), x2=alt.X2(field="high"))
    points = base.mark_point(filled=True, size=55).encode(x=alt.X(field=x.column, **place))
    rule = alt.Chart(alt.InlineData(values=[{"level": level}])).mark_rule(strokeDash=[3, 3], opacity=0.7)
    layers = [rule.encode(x=alt.X(field="level", **place)), bars_, points]
    return _layered(layers, height=max(120, 14 * (len(drawn) + 1) * len(figures)))


def stacked_bars(
    frame: pl.DataFrame, y: str, x: Axis, *, by: str, colours: Mapping[str, str], also: Sequence[Axis] = ()
) -> Chart:
    """Draw a horizontal bar for each value of ``y``, made of a part for each value of ``by``."""
    alt = altair()
    names = list(colours)
    order = pl.col(by).replace_strict(
        {name: place for place, name in enumerate(names)}, return_dtype=pl.Int64
    )
    ordered = frame.with_columns(order.alias("_order"))
    scale = {"domain": names, "range": list(colours.values())}
    chart = (
        alt.Chart(inline(ordered))
        .mark_bar()
        .encode(
            y=alt.Y(field=y, type="nominal", sort=_values(frame, y), title=None, axis={"labelLimit": 180}),
            x=alt.X(field=x.column, **{**x.scaled(frame), "stack": "zero"}),
            color=alt.Color(field=by, type="nominal", scale=scale, legend={"title": None, "columns": 3}),
            order=alt.Order(field="_order", type="quantitative"),
            tooltip=[_tip(y, " "), _tip(by, "part"), x.tooltip(), *(one.tooltip() for one in also)],
        )
    )
    # The legend and the axis take the rest.
    return _sized(chart, height=80 + 40 * len(_values(frame, y)))


def stacked_areas(frame: pl.DataFrame, x: Axis, y: Axis, *, by: str, step: bool = False) -> Chart:
    """Draw a layer for each value of ``by``, one on the other."""
    alt = altair()
    names = _values(frame, by)
    chart = (
        alt.Chart(inline(frame))
        .mark_area(interpolate="step-before" if step else "linear", opacity=0.85)
        .encode(
            x=alt.X(field=x.column, **x.scaled(frame)),
            y=alt.Y(field=y.column, **{**y.scaled(frame), "stack": "zero"}),
            color=_colour(by, names, legend=True),
            tooltip=[_tip(by), x.tooltip(), y.tooltip()],
        )
    )
    return _sized(chart)


def _sized(chart: Any, height: int = _HEIGHT) -> Chart:  # noqa: ANN401 - Altair's
    made: Chart = chart.properties(width=_WIDTH, height=height)
    return made


def _layered(layers: list[Any], height: int = _HEIGHT, params: Sequence[Any] = ()) -> Chart:
    made: Chart = layered(layers, width=_WIDTH, height=height, params=params)
    return made


def _colour(by: str, names: list[Any], *, legend: bool, symbol: str = "square") -> Any:  # noqa: ANN401 - Altair's
    alt = altair()
    return alt.Color(
        field=by,
        type="nominal",
        scale={"domain": names},
        sort=None,
        legend={"title": None, "symbolType": symbol} if legend else None,
    )


def _tip(column: str, title: str | None = None) -> Any:  # noqa: ANN401 - Altair's
    return altair().Tooltip(field=column, type="nominal", title=title or column)


def _values(frame: pl.DataFrame, column: str) -> list[Any]:
    return frame[column].unique(maintain_order=True).to_list()
