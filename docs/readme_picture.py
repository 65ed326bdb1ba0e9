"""Draw the README's picture: `.venv/bin/python docs/readme_picture.py`, after a change that moves results.

Needs Azure's conversation trace of 2023 in ../shared/traces; traces/README.md says where it comes from.
"""

from __future__ import annotations

from pathlib import Path

import altair as alt
import numpy as np
import polars as pl

import paceline

HERE = Path(__file__).resolve().parent
TRACE = HERE.parents[1] / "shared/traces/azure2023_conv.csv.zst"
PICTURE = HERE / "pictures/how-many-gpus.svg"

INSTANCES = (5, 6, 7, 8)
COLOURS = ("#D55E00", "#E69F00", "#56B4E9", "#0072B2")  # Okabe and Ito, 2008
OBJECTIVES = {"ttft": 0.5, "tpot": 0.040}
TITLES = {"ttft": "TTFT, until the first token (ms)", "tpot": "TPOT, from token to token (ms)"}
RANGE = {"ttft": (10, 20_000), "tpot": (5, 200)}
SHARES = np.linspace(0, 1, 201)


def distributions(trace: Path) -> pl.DataFrame:
    """Replay the trace at 20 times its rate on 5 to 8 instances; return quantiles of TTFT and TPOT in ms."""
    load = paceline.read_trace(trace).at_rate(scale=20)
    instance = paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")
    tables = []
    for count in INSTANCES:
        requests = paceline.replay(load, paceline.Cluster(count * [instance])).requests
        for metric in OBJECTIVES:
            seconds = requests[metric].drop_nulls().to_numpy()
            tables.append(
                pl.DataFrame(
                    {
                        "metric": metric,
                        "instances": f"{count} instances",
                        "ms": 1000 * np.quantile(seconds, SHARES),
                        "share": SHARES,
                    }
                )
            )
    return pl.concat(tables)


def panel(table: pl.DataFrame, metric: str) -> alt.LayerChart:
    """Draw the share of requests within each time, and a line at the objective."""
    lines = (
        alt.Chart(table.filter(pl.col("metric") == metric))
        .mark_line(clip=True, strokeWidth=2)
        .encode(
            x=alt.X("ms:Q")
            .scale(type="log", domain=RANGE[metric], nice=False)
            .title(TITLES[metric])
            .axis(format=",", tickCount=5),
            y=alt.Y("share:Q").axis(format="%").title("requests within it"),
            color=alt.Color("instances:N").scale(range=COLOURS).title(None).legend(orient="top"),
        )
    )
    objective = alt.Chart(pl.DataFrame({"ms": [1000 * OBJECTIVES[metric]]})).encode(x="ms:Q")
    rule = objective.mark_rule(strokeDash=[5, 3], color="#444444")
    label = objective.mark_text(align="left", dx=5, dy=-4, y="height", color="#444444").encode(
        text=alt.value(f"objective: {1000 * OBJECTIVES[metric]:g} ms")
    )
    return alt.layer(lines, rule, label).properties(width=330, height=200)


def picture(table: pl.DataFrame) -> alt.HConcatChart:
    """Set both panels side by side on white, so that a dark page shows them too."""
    return (
        alt.hconcat(panel(table, "ttft"), panel(table, "tpot"))
        .configure(background="white", font="system-ui, sans-serif")
        .configure_view(stroke=None)
    )


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    picture(distributions(TRACE)).save(PICTURE)
