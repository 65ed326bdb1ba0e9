"""Figures 9 to 12: TTFT, SLO violations and throughput under three loads, and the time of KV transfers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import polars as pl

from paceline.study.charts import bars, lines, points
from paceline.study.model import Figure, Table
from paceline.study.pages import Content
from paceline.study.pascal.requests import FORMATS, described
from paceline.study.pascal.runs import BASE, LEVELS, WORKLOADS, Frames, Runs
from paceline.study.pascal.tails import compared, extremes, tails
from paceline.study.pascal.workloads import chats

__all__ = ["EXTREMES", "against", "compared_tails", "loads_page", "tail_figure", "ttft_page"]

EXTREMES: Final = {"cut": ".1%", "cut_s": ".1f", "worse": ".1%", "worse_s": ".1f"}
"""How the columns of `extremes` are printed."""

_SHOWN: Final = 300
"""Requests of a panel and policy that Figure 9 draws; its data would weigh megabytes otherwise."""

_COLUMNS: Final = ("violations", "tokens/s", "preempted", "migrated", "P99 transfer (s)", "P99 blocking (s)")


def ttft_page(runs: Runs) -> dict[str, Content]:
    """Return Figures 9 and 10, with a table of all tails."""
    frames = runs.evaluation(WORKLOADS, tuple(LEVELS), BASE)
    high = {workload: {policy: frames[workload, "high", policy] for policy in BASE} for workload in WORKLOADS}
    titles = {workload: chats(workload).title for workload in WORKLOADS}
    cases = [
        (titles[workload], policy, frame) for workload in high for policy, frame in high[workload].items()
    ]
    rows = [{"workload": titles[workload], **row} for workload in high for row in against(high[workload])]
    return {
        "shown": str(_SHOWN),
        "figure-9": _scatter(frames),
        "figure-10": tail_figure(cases),
        "tails-compared": Table(pl.DataFrame(rows), EXTREMES),
    }


def against(frames: Mapping[str, pl.DataFrame]) -> list[dict[str, object]]:
    """Return how PASCAL's tails compare with each baseline's at most, from requests by policy."""
    by_policy = {policy: tails(frame) for policy, frame in frames.items()}
    return [
        {"against": baseline, **extremes(compared(by_policy, "PASCAL", baseline))}
        for baseline in ("FCFS", "RR")
    ]


def compared_tails(frames: Frames, workload: str, baseline: str) -> pl.DataFrame:
    """Return the bins of PASCAL and a baseline at the high load, as `compared` has them."""
    by_policy = {each: tails(frames[workload, "high", each]) for each in ("PASCAL", baseline)}
    return compared(by_policy, "PASCAL", baseline)


def tail_figure(cases: list[tuple[str, str, pl.DataFrame]], of: str = "ttft") -> Figure:
    """Make a figure of tails by reasoning tokens: a panel for each first name, a line for each second."""
    label = "tail TTFT (s)" if of == "ttft" else f"tail {of} latency (s)"
    parts = [
        tails(frame, of).select(
            pl.lit(panel).alias("panel"),
            pl.lit(policy).alias("policy"),
            (pl.col("from_tokens") + 128).alias("reasoning tokens"),
            "count",
            "statistic",
            pl.col("tail").alias(label),
        )
        for panel, policy, frame in cases
    ]
    return lines(pl.concat(parts), x="reasoning tokens", y=label, by="policy", panel="panel")


def loads_page(runs: Runs) -> dict[str, Content]:
    """Return Figures 11 and 12 and the KV transfers, all in one table."""
    frames = runs.evaluation(WORKLOADS, tuple(LEVELS), BASE)
    rows = pl.DataFrame(
        [
            {
                "workload": chats(workload).title,
                "load": level,
                "policy": policy,
                **described(frame, *_COLUMNS),
            }
            for (workload, level, policy), frame in frames.items()
        ]
    )
    by_load = partial(bars, rows, x="load", by="policy", panel="workload")
    return {
        "figure-11": by_load(y="violations"),
        "figure-12": by_load(y="tokens/s"),
        "loads-table": Table(rows, FORMATS),
    }


def _scatter(frames: Frames) -> Figure:
    parts = [
        frame.select(pl.col("reasoning_tokens").alias("reasoning tokens"), pl.col("ttft").alias("TTFT (s)"))
        .drop_nulls()
        .gather_every(max(1, frame.height // _SHOWN))
        .with_columns(panel=pl.lit(f"{chats(workload).title}, {level}"), policy=pl.lit(policy))
        for (workload, level, policy), frame in frames.items()
    ]
    return points(pl.concat(parts), x="reasoning tokens", y="TTFT (s)", by="policy", panel="panel")
