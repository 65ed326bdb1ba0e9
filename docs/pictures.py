"""Draw the pictures of guides, tutorial and background: docs/pictures.py [NAME ...] [--check].

Each is drawn from replays of traces that are in the tree or synthesized, so that every clone draws the same.
With --check the files are compared with fresh ones, and nothing is written.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl

import paceline
from paceline.reuse import hit_curve
from paceline.synthesis import Diurnal

HERE = Path(__file__).resolve().parent
PICTURES = HERE / "pictures"
TRACES = HERE.parent / "traces"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # Okabe and Ito, 2008
GREY = "#444444"
H100 = paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")
CHAT = paceline.SLO(ttft=0.2, tpot=0.02)
COLOUR = alt.Scale(range=COLOURS)


def rule(value: float, text: str, channel: str) -> alt.LayerChart:
    """Draw a dashed line at a value of an axis, with what it is."""
    at = alt.Chart(pl.DataFrame({"at": [value]}))
    place = {channel: alt.Y("at:Q") if channel == "y" else alt.X("at:Q")}
    line = at.mark_rule(strokeDash=[5, 3], color=GREY).encode(**place)
    corner = {"x": alt.value(4)} if channel == "y" else {"y": alt.value(10)}
    label = at.mark_text(align="left", dx=4, dy=-6 if channel == "y" else 0, color=GREY)
    return line + label.encode(text=alt.value(text), **place, **corner)


def first_replay() -> alt.Chart:
    """Draw the share of requests within each TTFT, by the rate of the tutorial's first page."""
    trace, shares = paceline.synthesize("azure-conv", requests=1_000, seed=1), np.linspace(0, 1, 201)
    tables = []
    for rate in (5, 10, 20, 30):
        ttft = paceline.replay(trace.at_rate(rate=rate), paceline.Cluster([H100])).requests["ttft"]
        quantiles = 1000 * np.quantile(ttft.drop_nulls().to_numpy(), shares)
        tables.append(pl.DataFrame({"rate": f"{rate:2} requests/s", "ms": quantiles, "share": shares}))
    return (
        alt.Chart(pl.concat(tables))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("ms:Q").scale(type="log", nice=False).title("TTFT (ms)").axis(format=",", tickCount=5),
            y=alt.Y("share:Q").axis(format="%").title("requests within it"),
            color=alt.Color("rate:N").scale(COLOUR).title(None).legend(orient="top"),
        )
        .properties(width=480, height=200)
    )


def closed_loop() -> alt.LayerChart:
    """Draw throughput and the P99 of TPOT by the limit of requests in flight, of the tutorial's last page."""
    trace = paceline.synthesize("azure-conv", requests=1_000, seed=1).at_rate(rate=50.0)
    rows = []
    for limit in (4, 8, 16, 32, 64, 128, 256):
        result = paceline.replay(trace, paceline.Cluster([H100]), clients=paceline.Concurrency(limit))
        tpot = result.requests["tpot"].quantile(0.99)
        rows.append({"limit": limit, "rate": result.totals().requests_per_s, "tpot": 1000 * (tpot or 0.0)})
    base = alt.Chart(pl.DataFrame(rows)).mark_line(point=True, strokeWidth=2)
    points = base.encode(
        x=alt.X("rate:Q").title("requests/s that finish"),
        y=alt.Y("tpot:Q").title("P99 of TPOT (ms)"),
        order="limit:Q",
        color=alt.value(COLOURS[0]),
    )
    labels = base.mark_text(align="right", dx=-8, dy=-6, color=GREY).encode(
        x="rate:Q", y="tpot:Q", text="limit:Q"
    )
    return (points + labels).properties(width=480, height=200)


def capacity() -> alt.LayerChart:
    """Draw the attainment at the rates that the guide's search evaluates."""
    trace = paceline.read_trace(TRACES / "azure-conv-1000.csv")
    found = paceline.capacity(trace, paceline.Cluster(2 * [H100]), None, CHAT, target=0.9)
    base = alt.Chart(found.curve.sort("rate").select("rate", "attainment", "passes"))
    where = {
        "x": alt.X("rate:Q").title("requests/s"),
        "y": alt.Y("attainment:Q").axis(format="%").title("requests within both bounds"),
    }
    line = base.mark_line(color="#999999", strokeWidth=1).encode(**where)
    marks = base.mark_circle(size=45, opacity=1).encode(
        **where,
        color=alt.condition("datum.passes", alt.value(COLOURS[0]), alt.value(COLOURS[1])),
    )
    target = rule(0.9, "target", "y")
    edge = rule(found.rate, f"capacity: {found.rate:.2f}", "x")
    return (line + marks + target + edge).properties(width=480, height=200)


def over_time() -> alt.VConcatChart:
    """Draw requests that wait and run, and used KV blocks, of bursts on two instances."""
    trace = paceline.read_trace(TRACES / "bursts-500.jsonl")
    timeline = paceline.replay(trace, paceline.Cluster(2 * [H100]), sample=0.25).timeline
    rows = timeline.select("time_s", "instance", "running", "waiting", "kv_used_blocks").with_columns(
        pl.format("instance {}", "instance").alias("instance")
    )
    panels = [
        alt.Chart(rows)
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(
            x=alt.X("time_s:Q").title("seconds"),
            y=alt.Y(f"{column}:Q").title(title),
            color=alt.Color("instance:N").scale(COLOUR).title(None).legend(orient="top"),
        )
        .properties(width=480, height=90)
        for column, title in {"running": "running", "kv_used_blocks": "KV blocks"}.items()
    ]
    return alt.vconcat(*panels)


def autoscaling() -> alt.VConcatChart:
    """Draw the load of the guide's first example, and the instances that are on."""
    load = Diurnal(10.0, swing=0.8, period_s=1_200.0, phase_s=900.0)
    trace = paceline.synthesize("azure-conv", requests=12_000, arrivals=load, seed=1)
    policy = paceline.policies.hpa(metric="requests", target=40, serving=1, off=3, start_s=60.0)
    result = paceline.replay(trace, paceline.Cluster(4 * [H100]), policy, sample=20.0)
    by_moment = result.timeline.group_by("time_s", maintain_order=True)
    rows = by_moment.agg(
        (pl.col("on_s").sum() / pl.col("interval_s").first()).alias("on"),
        (pl.col("running").sum() + pl.col("waiting").sum()).alias("unfinished"),
    )
    x = alt.X("time_s:Q").title("seconds")
    base = alt.Chart(rows).properties(width=480, height=90)
    unfinished = base.mark_line(strokeWidth=1.5, color=COLOURS[1])
    on = base.mark_line(interpolate="step-before", strokeWidth=2, color=COLOURS[0])
    return alt.vconcat(
        unfinished.encode(x=x, y=alt.Y("unfinished:Q").title("unfinished")),
        on.encode(x=x, y=alt.Y("on:Q").title("instances on")),
    )


def prefix_cache() -> alt.Chart:
    """Draw what a prefix cache finds by its size, of the guide's sessions and of an API's."""
    tables = []
    for name, title in {"alibaba-chat": "chats", "alibaba-api": "API calls"}.items():
        trace = paceline.synthesize(name, sessions=400, seed=1)
        curve = hit_curve(trace, model="llama-3.1-8b").select("capacity_gib", "token_hit_rate")
        tables.append(curve.with_columns(pl.lit(title).alias("workload")))
    return (
        alt.Chart(pl.concat(tables).filter(pl.col("capacity_gib") > 0))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("capacity_gib:Q").scale(type="log").title("capacity (GiB)"),
            y=alt.Y("token_hit_rate:Q").axis(format="%").title("tokens found"),
            color=alt.Color("workload:N").scale(COLOUR).title(None).legend(orient="top"),
        )
        .properties(width=480, height=180)
    )


def steps_and_leaps() -> alt.LayerChart:
    """Draw the steps of one instance, the runs that they form, and the arrivals and ends between runs."""
    trace = paceline.synthesize("azure-conv", requests=12, rate=8.0, seed=3)
    result = paceline.replay(trace, paceline.Cluster([H100]), record=(0.0, 60.0))
    steps = result.steps.filter(pl.col("start_s") < SHOWN_S).select(
        "start_s",
        (pl.col("start_s") + pl.col("step_s")).alias("end_s"),
        pl.col("requests").list.sort().alias("batch"),
        (pl.col("tokens").list.max() > 1).alias("prefill"),
    )
    changes = pl.any_horizontal(
        pl.col("batch") != pl.col("batch").shift(), pl.col("prefill") | pl.col("prefill").shift()
    )
    steps = steps.with_columns(changes.fill_null(value=True).cum_sum().alias("run"))
    runs = steps.group_by("run", maintain_order=True).agg(
        pl.col("start_s").first(), pl.col("end_s").last(), pl.col("prefill").first(), pl.len().alias("steps")
    )
    bars = []
    for row, frame in {"steps": steps, "runs": runs}.items():
        kind = pl.when("prefill").then(pl.lit("has a prompt's tokens")).otherwise(pl.lit("decodes only"))
        bars.append(
            frame.select("start_s", "end_s", kind.alias("kind"), pl.lit(f"{frame.height} {row}").alias("row"))
        )
    moments = result.requests.select(
        pl.col("arrival").alias("arrivals"), pl.col("finish").alias("ends")
    ).unpivot(variable_name="row", value_name="start_s")
    order = [bars[0]["row"][0], bars[1]["row"][0], "arrivals", "ends"]
    y = alt.Y("row:N").sort(order).title(None)
    drawn = (
        alt.Chart(pl.concat(bars))
        .mark_bar(stroke="white", strokeWidth=0.7)
        .encode(
            x=alt.X("start_s:Q").title("seconds"),
            x2="end_s:Q",
            y=y,
            color=alt.Color("kind:N").scale(COLOUR).title(None).legend(orient="top"),
        )
    )
    ticks = alt.Chart(moments.filter(pl.col("start_s") < SHOWN_S)).mark_tick(color=GREY, thickness=2)
    return (drawn + ticks.encode(x="start_s:Q", y=y)).properties(width=560, height=130)


SHOWN_S = 1.6


def warm_up() -> alt.LayerChart:
    """Draw the mean TTFT by arrival over many drawn traces that start on an empty cluster."""
    width, drawn = 4.0, []
    for seed in range(60):
        trace = paceline.synthesize("azure-conv", requests=1_500, rate=16.0, seed=seed)
        requests = paceline.replay(trace, paceline.Cluster([H100])).requests
        drawn.append(requests.select("arrival", "e2e"))
    rows = (
        pl.concat(drawn)
        .group_by((pl.col("arrival") // width * width).alias("seconds"))
        .agg(pl.col("e2e").mean(), pl.len())
        .filter(pl.col("seconds") < 80)
        .sort("seconds")
    )
    line = alt.Chart(rows).mark_line(point=True, strokeWidth=2, color=COLOURS[0])
    drawn_line = line.encode(
        x=alt.X("seconds:Q").title("arrival (s)"), y=alt.Y("e2e:Q").title("mean E2E latency (s)")
    )
    return (drawn_line + rule(20.0, "warm-up: 20 s", "x")).properties(width=480, height=170)


DRAWN: dict[str, Callable[[], alt.TopLevelMixin]] = {
    "autoscaling": autoscaling,
    "capacity": capacity,
    "closed-loop": closed_loop,
    "first-replay": first_replay,
    "over-time": over_time,
    "prefix-cache": prefix_cache,
    "steps-and-leaps": steps_and_leaps,
    "warm-up": warm_up,
}


def svg(name: str) -> str:
    """Return a picture on white, so that a dark page shows it too."""
    chart = (
        DRAWN[name]().configure(background="white", font="system-ui, sans-serif").configure_view(stroke=None)
    )
    written = io.StringIO()
    chart.save(written, format="svg")
    return written.getvalue()


def main(words: list[str]) -> int:
    """Draw the pictures that were named, or all; return 1 if one differs and is only compared."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*DRAWN, []])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    given = parser.parse_args(words)
    good = True
    for name in given.names or DRAWN:
        file, fresh = PICTURES / f"{name}.svg", svg(name)
        same = file.is_file() and file.read_text(encoding="utf-8") == fresh
        print(f"{name}: {'as a fresh one' if same else 'differs' if given.check else 'written'}", flush=True)
        good &= same or not given.check
        if not same and not given.check:
            file.write_text(fresh, encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
