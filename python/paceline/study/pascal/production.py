"""The same comparison on a production workload: DeepSeek-R1 as ServeGen describes it.

Lengths and bursts are those of 73 clients of a far larger deployment. The ten minutes that start at 00:00 of
the day are drawn, and time is stretched until they fill the memory as the other workloads do.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from paceline.study.model import Table
from paceline.study.pages import Content
from paceline.study.pascal.evaluation import EXTREMES, against, tail_figure
from paceline.study.pascal.requests import FORMATS, described, number
from paceline.study.pascal.runs import BASE, LEVELS, Runs, Setting
from paceline.study.pascal.schedulers import POLICIES
from paceline.study.pascal.workloads import Served

__all__ = ["TITLE", "production_page", "settings"]

TITLE: Final = "DeepSeek-R1 in production"


def settings(served: Served) -> dict[str, Setting]:
    """Return the settings of the page by level."""
    return {level: Setting(trace=served, load=LEVELS[level]) for level in ("medium", "high")}


def production_page(runs: Runs, served: Served) -> dict[str, Content]:
    """Return the trace, all policies at two loads, and tails at the high load."""
    frames = {level: runs.frames(setting, POLICIES) for level, setting in settings(served).items()}
    rows = [
        {"load": level, "policy": policy, **described(frame, *_COLUMNS)}
        for level, by_policy in frames.items()
        for policy, frame in by_policy.items()
    ]
    rates = {
        f"{level} (requests/s)": runs.trace(setting).rate_per_s for level, setting in settings(served).items()
    }
    reasoning = served.trace.frame["reasoning_tokens"]
    trace = {
        "requests": len(served.trace),
        "reasoning below 1,000": number((reasoning < 1000).mean()),
        "served (requests/s)": served.trace.rate_per_s,
    }
    formats = {"reasoning below 1,000": ".1%", "served (requests/s)": ".1f"} | dict.fromkeys(rates, ".2f")
    high = frames["high"]
    return {
        "production-rates": Table(pl.DataFrame([trace | rates]), formats),
        "production-tails": tail_figure([(TITLE, policy, high[policy]) for policy in BASE]),
        "production-table": Table(pl.DataFrame(rows), FORMATS),
        "production-tails-compared": Table(pl.DataFrame(against(high)), EXTREMES),
    }


_COLUMNS: Final = (
    "violations",
    "tokens/s",
    "P50 TTFT (s)",
    "P99 TTFT (s)",
    "P99 transfer (s)",
    "P99 blocking (s)",
)
