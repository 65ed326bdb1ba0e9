"""Panels over time: from the requests alone, and from the samples of a replay that has them."""

from __future__ import annotations

from typing import Any, TypedDict

import polars as pl

from paceline.report.charts.kit import MOST_TOGETHER, Axis, Chart, in_time, lines, panels, stacked_areas
from paceline.report.data.moments import over_time, percentiles_over_time, roles_over_time
from paceline.report.data.sampled import sampled, tenants
from paceline.report.data.whereabouts import PLACES, whereabouts
from paceline.report.figure import Figure, Section, table_of
from paceline.report.replayed import Run, is_sampled

__all__ = ["moments"]

_SAMPLED = {
    "running": ("Running requests", "running requests", "At the sampled moments, over all instances."),
    "waiting": ("Waiting requests", "waiting requests", "Queued and swapped out, over all instances."),
    "kv_use": ("KV use", "share of KV blocks in use", "Over all instances."),
    "kv_use_most": (
        "KV use of the fullest instance",
        "share of its KV blocks in use",
        "The highest in each interval.",
    ),
    "prefill_tokens": (
        "Prefill",
        "prompt tokens/s",
        "Tokens computed by prefills, recomputed ones included.",
    ),
    "decode_tokens": ("Decode", "output tokens/s", "Tokens computed by decodes."),
    "preemptions": ("Preemptions", "preemptions/s", "Over all instances."),
    "power_w": ("Power", "watts", "Energy of all GPUs over each interval, idle power included."),
}


def moments(runs: tuple[Run, ...]) -> Section:
    """Return the section."""
    frame = over_time(runs)
    figures = [
        _panel(frame, "arrivals", "Arrivals", "requests/s", "Per second, in equal intervals of the replay."),
        _panel(frame, "finished", "Finished requests", "requests/s", "Per second, likewise."),
        _panel(
            frame,
            "in_flight",
            "Requests in flight",
            "requests",
            "Arrived, and neither finished nor rejected.",
        ),
        _panel(
            frame,
            "waiting",
            "Requests before their first step",
            "requests",
            "Those in flight that no step has run yet.",
        ),
    ]
    for metric, title in (("ttft", "TTFT"), ("e2e", "E2E")):
        figures += _latency(runs, metric, title)
    figures += [_whereabouts(run, several=len(runs) > 1) for run in runs if is_sampled(run.result)]
    states = sampled(runs)
    if states is not None:
        for column, (title, unit, note) in _SAMPLED.items():
            ends = [name for name in (f"{column}_low", f"{column}_high") if name in states.columns]
            known = states.select("run", "time_s", column, *ends).drop_nulls()
            if known.height and not (column == "preemptions" and not known[column].sum()):
                figures.append(_panel(known, column, title, unit, note))
    figures += [_roles(run, several=len(runs) > 1) for run in runs if run.result.roles.height]
    for run in runs:
        figures += _tenants(run, several=len(runs) > 1)
    missing = [run.name for run in runs if not is_sampled(run.result)]
    text: tuple[str, ...] = ()
    if missing:
        whose = "This replay was" if len(runs) == 1 else f"{', '.join(missing)}: "
        text = (
            f"{whose} not sampled: running requests, KV use and power over time need a replay with samples "
            "(sample=1.0, or --sample 1s).",
        )
    return Section(name="time", title="Over time", figures=tuple(figures), text=text)


def _panel(frame: pl.DataFrame, column: str, title: str, unit: str, note: str) -> Figure:
    shares = column.startswith("kv_use")
    y = Axis(column, unit, form="%" if shares else "~s", tip=".1%" if shares else ",.4~r")
    ends = [name for name in (f"{column}_low", f"{column}_high") if name in frame.columns]
    of = frame.select("run", "time_s", column, *ends)
    wide = of.pivot("run", index="time_s", values=column, maintain_order=True).sort("time_s")
    runs = of["run"].n_unique()
    table = table_of(
        wide if runs > 1 else of.drop("run"),
        ("time (s)", *wide.columns[1:]) if runs > 1 else ("time (s)", unit, *("least", "most")[: len(ends)]),
        most=150,
    )
    return Figure(
        title=title,
        note=f"{note} The area is from the least to the most of each interval." if ends else note,
        table=table,
        **_drawn(
            of,
            "time",
            y,
            step=column not in ("in_flight", "waiting", "running"),
            band=(f"{column}_low", f"{column}_high") if ends else None,
        ),
    )


class _Drawn(TypedDict, total=False):
    chart: Chart
    panels: tuple[tuple[str, Chart], ...]


def _drawn(frame: pl.DataFrame, title: str, y: Axis, **more: Any) -> _Drawn:  # noqa: ANN401 - of `lines`
    """Draw the lines of all runs in one picture, or a small panel for each run if there are many."""
    timed, x = in_time(frame, title)
    if timed["run"].n_unique() > MOST_TOGETHER:
        return {"panels": panels(timed, x, y, **more)}
    return {"chart": lines(timed, x, y, **more)}


def _latency(runs: tuple[Run, ...], metric: str, title: str) -> list[Figure]:
    frame = percentiles_over_time(runs, metric)
    if frame.is_empty():
        return []
    long = frame.unpivot(
        ["p50", "p99"], index=["run", "time_s", "requests"], variable_name="quantile", value_name="seconds"
    )
    return [
        Figure(
            title=f"{title} by time of arrival",
            note="Median and 99th percentile of the requests that arrived in each interval.",
            table=table_of(frame, ("run", "from (s)", "requests", "p50 (s)", "p99 (s)")),
            **_drawn(
                long,
                "time of arrival",
                Axis("seconds", f"{title} (s)", scale="log"),
                dash="quantile",
                also=(Axis("requests", "requests", tip=","),),
                places=True,
            ),
        )
    ]


def _whereabouts(run: Run, *, several: bool) -> Figure:
    frame = whereabouts(run)
    long = frame.unpivot(list(PLACES), index="time_s", variable_name="place", value_name="requests")
    named = long.with_columns(pl.col("place").replace_strict(PLACES))
    return Figure(
        title=f"Where requests are: {run.name}" if several else "Where requests are",
        note="At the sampled moments. The parts add up to the requests in flight. Those elsewhere are held "
        "by a router, delayed in front of the instances, or between two of them.",
        chart=stacked_areas(
            *in_time(named, "time"), Axis("requests", "requests", form="~s", tip=","), by="place"
        ),
        table=table_of(frame, ("time (s)", *PLACES.values(), "in flight"), words=0, most=150),
    )


def _roles(run: Run, *, several: bool) -> Figure:
    frame = roles_over_time(run)
    wide = frame.pivot("role", index="time_s", values="instances", maintain_order=True)
    return Figure(
        title=f"Instances by pool: {run.name}" if several else "Instances by pool",
        note="How many instances were in each pool.",
        chart=stacked_areas(
            *in_time(frame, "time"),
            Axis("instances", "instances", form="d", tip=","),
            by="role",
            step=True,
        ),
        table=table_of(wide, ("time (s)", *wide.columns[1:]), most=80),
    )


def _tenants(run: Run, *, several: bool) -> list[Figure]:
    frame = tenants(run)
    if frame is None:
        return []
    figures = []
    for column, words in (("arrivals", "Arrivals"), ("finished", "Finished requests")):
        wide = frame.pivot("tenant", index="time_s", values=column, maintain_order=True)
        figures.append(
            Figure(
                title=f"{words} by tenant: {run.name}" if several else f"{words} by tenant",
                note="The tenants with the most requests; all others are added up.",
                chart=stacked_areas(
                    *in_time(frame, "time"),
                    Axis(column, "requests/s"),
                    by="tenant",
                ),
                table=table_of(wide, ("time (s)", *wide.columns[1:]), most=60),
            )
        )
    return figures
