"""Figures 13 and 15: what migration is worth, and what its adaptivity."""

from __future__ import annotations

from functools import partial
from typing import Final

import polars as pl

from paceline.study.charts import bars, curves
from paceline.study.model import Figure, Table
from paceline.study.pages import Content
from paceline.study.pascal.evaluation import tail_figure
from paceline.study.pascal.requests import FORMATS, described, end_to_end
from paceline.study.pascal.runs import LEVELS, Runs
from paceline.study.pascal.workloads import chats

__all__ = ["adaptivity_page", "distribution", "migration_page"]

_WORKLOAD: Final = "alpacaeval"
_COLUMNS: Final = (
    "violations",
    "P99 blocking (s)",
    "migrated",
    "P50 TTFT (s)",
    "P99 TTFT (s)",
    "P50 e2e (s)",
    "P99 e2e (s)",
)


def migration_page(runs: Runs) -> dict[str, Content]:
    """Return Figure 13: PASCAL with and without migration."""
    policies = ("PASCAL", "PASCAL(NoMigration)")
    by_level = _by_level(runs, policies)
    high = runs.evaluation((_WORKLOAD,), ("high",), policies[::-1])
    by_load = partial(bars, by_level, x="load", by="policy", panel="what")
    return {
        "figure-13a": tail_figure([("TTFT", policy, frame) for (_, _, policy), frame in high.items()]),
        "figure-13b": tail_figure(
            [("reasoning phase", policy, frame) for (_, _, policy), frame in high.items()], of="reasoning"
        ),
        "figure-13c": by_load(y="P99 blocking (s)"),
        "figure-13d": by_load(y="violations"),
        "figure-13-table": Table(by_level.drop("what"), FORMATS),
    }


def adaptivity_page(runs: Runs) -> dict[str, Content]:
    """Return Figure 15: PASCAL's migration adaptive, and always."""
    policies = ("PASCAL", "PASCAL(NonAdaptive)")
    by_level = _by_level(runs, policies)
    high = runs.evaluation((_WORKLOAD,), ("high",), policies[::-1])
    latency = [
        {"what": "high load", "policy": policy, "statistic": name, "end to end (s)": value}
        for (_, _, policy), frame in high.items()
        for name, value in end_to_end(frame).items()
    ]
    return {
        "figure-15a": distribution([("high load", policy, frame) for (_, _, policy), frame in high.items()]),
        "figure-15b": bars(by_level, x="load", y="violations", by="policy", panel="what"),
        "figure-15c": bars(
            pl.DataFrame(latency), x="statistic", y="end to end (s)", by="policy", panel="what"
        ),
        "figure-15-table": Table(by_level.drop("what"), FORMATS),
    }


def distribution(cases: list[tuple[str, str, pl.DataFrame]]) -> Figure:
    """Make a figure of the share of requests whose TTFT is at most so long."""
    shares = [step / 200 for step in range(201)]
    parts = []
    for panel, policy, frame in cases:
        ttft = frame["ttft"].drop_nulls()
        at_most = [ttft.quantile(share, interpolation="linear") for share in shares]
        columns = pl.DataFrame({"TTFT (s)": at_most, "share of requests": shares})
        parts.append(columns.select(pl.lit(panel).alias("panel"), pl.lit(policy).alias("policy"), pl.all()))
    return curves(pl.concat(parts), x="TTFT (s)", y="share of requests", by="policy", panel="panel")


def _by_level(runs: Runs, policies: tuple[str, ...]) -> pl.DataFrame:
    frames = runs.evaluation((_WORKLOAD,), tuple(LEVELS), policies)
    title = chats(_WORKLOAD).title
    return pl.DataFrame(
        [
            {"what": title, "load": level, "policy": policy, **described(frame, *_COLUMNS)}
            for (_, level, policy), frame in frames.items()
        ]
    )
