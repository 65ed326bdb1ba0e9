"""SLO attainment and goodput, and quality of experience."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from paceline.report.charts.kit import Axis, bars, in_time, lines
from paceline.report.data.distributions import quantiles
from paceline.report.data.moments import percentiles_over_time
from paceline.report.data.objectives import attainment_by_bound, attainment_by_scale, attainment_over_time
from paceline.report.figure import Figure, Section, table_of
from paceline.report.replayed import Run

if TYPE_CHECKING:
    from paceline.objectives import SLO

__all__ = ["attainment_figure", "objectives"]

_SHARE = Axis("attainment", "attainment", form="%", tip=".2%", domain=(0.0, 1.0))


def objectives(runs: tuple[Run, ...], slo: SLO | None) -> Section | None:
    """Return the section; None without objectives and without quality of experience."""
    figures = [] if slo is None else _attainment(runs, slo)
    figures += _qoe(runs)
    text: tuple[str, ...] = ()
    if slo is not None:
        bounds = ", ".join(f"{_TITLES[name]} ≤ {bound:g} s" for name, bound in slo.bounds().items())
        text = (
            f"SLO: {bounds}. Attainment is the share of arrived requests that finished within every bound; "
            "goodput is those requests per second, the time after the last arrival included.",
        )
    return Section(name="slo", title="SLO and QoE", figures=tuple(figures), text=text) if figures else None


_TITLES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E", "itl": "longest ITL"}


def _attainment(runs: tuple[Run, ...], slo: SLO) -> list[Figure]:
    bound = pl.col("bound").replace(_TITLES)
    each = attainment_by_bound(runs, slo).with_columns(bound)
    scaled = attainment_by_scale(runs, slo)
    goodput = Axis("goodput", "goodput (requests/s)")
    return [
        Figure(
            title="Attainment by bound",
            note="All bounds together, and each alone.",
            chart=bars(each, "bound", _SHARE, x_title="bound", also=(goodput,)),
            table=table_of(
                each, ("run", "bound", "limit (s)", "attainment", "goodput (requests/s)"), words=2
            ),
        ),
        Figure(
            title="Attainment if the bounds were stricter or looser",
            note="All bounds times one factor; 1 is the SLO as given.",
            chart=lines(
                scaled,
                Axis("scale", "factor on every bound", scale="log"),
                _SHARE,
                named=True,
            ),
            table=table_of(_wide(scaled, "scale", "attainment"), most=80),
        ),
        *attainment_figure(runs, slo),
    ]


def attainment_figure(runs: tuple[Run, ...], slo: SLO | None) -> list[Figure]:
    """Return attainment over time; nothing without objectives."""
    if slo is None:
        return []
    timed = attainment_over_time(runs, slo)
    drawn, at = in_time(timed, "time of arrival")
    requests = Axis("requests", "requests", tip=",")
    return [
        Figure(
            title="Attainment over time",
            note="Of the requests that arrived in each interval.",
            chart=lines(drawn, at, _SHARE, also=(requests,), places=True),
            table=table_of(timed, ("run", "from (s)", "requests", "attainment")),
        )
    ]


def _wide(frame: pl.DataFrame, index: str, values: str) -> pl.DataFrame:
    return frame.pivot("run", index=index, values=values, maintain_order=True)


def _qoe(runs: tuple[Run, ...]) -> list[Figure]:
    shares = np.round(np.linspace(0, 1, 201), 4)
    frames = []
    for run in runs:
        values = quantiles(run.result, "qoe", shares)
        if values is not None:
            columns = {"share": shares, "qoe": values}
            frames.append(pl.DataFrame({"run": [run.name] * len(shares), **columns}))
    if not frames:
        return []
    frame = pl.concat(frames)
    timed = percentiles_over_time(runs, "qoe")
    shown = frame.filter((pl.col("share") * 20 % 1).is_between(1e-9, 1 - 1e-9).not_())
    qoe = Axis("qoe", "QoE", tip=".4f", domain=(0.0, 1.0))
    return [
        Figure(
            title="Quality of experience",
            note="Andes' QoE of a request: 1 if its tokens were never behind the pace. Share of requests "
            "with at most this QoE.",
            chart=lines(
                frame, qoe, Axis("share", "share of requests", form="%", tip=".1%", domain=(0.0, 1.0))
            ),
            table=table_of(_wide(shown, "share", "qoe")),
        ),
        Figure(
            title="QoE over time",
            note="Median of the requests that arrived in each interval.",
            chart=lines(
                *in_time(timed, "time of arrival"),
                Axis("p50", "median QoE", tip=".4f", domain=(0.0, 1.0)),
                also=(Axis("requests", "requests", tip=","),),
                places=True,
            ),
            table=table_of(
                timed.select("run", "time_s", "requests", "p50"), ("run", "from (s)", "requests", "median")
            ),
        ),
    ]
