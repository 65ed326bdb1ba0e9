"""The chart of hit rates against capacity, and a page of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from paceline._arguments import typed
from paceline._core import VERSION
from paceline.errors import ConfigError

if TYPE_CHECKING:
    from paceline.report.charts.kit import Chart

__all__ = ["hit_chart", "write_hit_page"]


@typed(ConfigError)
def hit_chart(curves: Mapping[str, pl.DataFrame]) -> Chart:
    """Return an Altair chart of hit rates against capacity.

    Parameters
    ----------
    curves
        Frames of :func:`~paceline.reuse.hit_curve` or :func:`~paceline.reuse.replayed_hits` by name. The
        axis is in GiB if all have ``capacity_gib``, else in blocks.

    Raises
    ------
    ConfigError
        If there is no curve, or ``paceline[report]`` is not installed.
    """
    from paceline.report.charts.kit import Axis, lines

    frame = _together(curves)
    gib = frame["capacity_gib"].null_count() == 0
    unit = "gib" if gib else "blocks"
    at = Axis(f"capacity_{unit}", f"capacity ({'GiB' if gib else unit})", scale="log")
    return lines(
        frame,
        at,
        Axis("token_hit_rate", "tokens found", form="%", tip=".2%"),
        named=len(curves) > 1,
        places=True,
    )


@typed(ConfigError)
def write_hit_page(curves: Mapping[str, pl.DataFrame], path: str | os.PathLike[str], *, title: str) -> Path:
    """Write a chart of hit rates, with its table, to one HTML file.

    Parameters
    ----------
    curves
        As for :func:`hit_chart`.
    path
        The file. It is replaced if it exists.
    title
        The page's title.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    ConfigError
        As for :func:`hit_chart`.
    ResultError
        If the file cannot be written.
    """
    from paceline.report.figure import Figure, Section, table_of
    from paceline.report.page.assemble import assemble
    from paceline.report.page.writing import page_file, write_page

    target = page_file(path)
    frame = _together(curves).drop("capacity_gib")
    figure = Figure(
        title="Hit rate against capacity",
        note="The share of all prompts' tokens that a prefix cache finds.",
        chart=hit_chart(curves),
        table=table_of(frame, ("run", "blocks", "tokens found")),
        wide=True,
    )
    sections = [Section(name="hits", title="Prefix cache", figures=(figure,))]
    text = assemble(
        title=title, lead="", version=VERSION, cards=[], warnings=[], sections=sections, inputs=[]
    )
    return write_page(text, target)


def _together(curves: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    if not curves:
        raise ConfigError("curves must have at least one frame by name, had none")
    for name, frame in curves.items():
        for column in ("capacity_blocks", "token_hit_rate"):
            if column not in frame.columns:
                raise ConfigError(
                    f"curves: {name!r} must have a column {column!r}, as hit_curve() and replayed_hits() "
                    f"return, had {', '.join(frame.columns) or 'none'}"
                )
    gib = pl.lit(None, dtype=pl.Float64).alias("capacity_gib")
    return pl.concat(
        (frame if "capacity_gib" in frame.columns else frame.with_columns(gib)).select(
            pl.lit(name).alias("run"), "capacity_blocks", "token_hit_rate", "capacity_gib"
        )
        for name, frame in curves.items()
    )
