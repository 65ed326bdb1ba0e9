"""Figures 9 to 12: TTFT, SLO violations and throughput under three loads, and the time that KV travels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import polars as pl

from paceline.study.charts import lines
from paceline.study.model import Figure, Page, Table
from paceline.study.pascal.drawing import bars, points
from paceline.study.pascal.requests import number, p99, throughput, violations
from paceline.study.pascal.tails import compared, extremes, tails

__all__ = ["Frames", "compared_tails", "loads_page", "tail_figure", "tail_lines", "ttft_page"]

#: Requests by workload, level of load and policy.
Frames: TypeAlias = Mapping[tuple[str, str, str], pl.DataFrame]

_SHOWN: Final = 300
"""Requests of a panel and policy that Figure 9 draws; its data would weigh megabytes otherwise."""


def ttft_page(frames: Frames, titles: Mapping[str, str]) -> Page:
    """Return Figures 9 and 10, with a table of all tails.

    Parameters
    ----------
    frames
        With the levels low, medium and high, the policies FCFS, RR and PASCAL.
    titles
        Of the workloads, by name.
    """
    comparisons = [
        {"workload": titles[workload], "against": baseline} | extremes(bins)
        for workload in titles
        for baseline in ("FCFS", "RR")
        for bins in (compared_tails(frames, workload, baseline),)
    ]
    return Page(
        name="ttft",
        title="TTFT by reasoning length (Figures 9 and 10)",
        parts=(
            "TTFT is from arrival to the first token of the answer. A bin's tail is the largest TTFT of "
            "fewer than 10 requests, P90 of fewer than 20, P95 of fewer than 100, else P99; bins of fewer "
            "than 5 are left out.",
            _scatter(frames, titles),
            tail_figure(
                "figure-10",
                "Figure 10: tail TTFT by reasoning tokens, high load",
                [
                    (titles[workload], policy, frame)
                    for workload, level, policy, frame in _rows(frames)
                    if level == "high"
                ],
            ),
            Table(
                name="tails-compared",
                caption="Bins of 256 reasoning tokens, high load: where PASCAL's tail is shorter and longer "
                "than the baselines', at most",
                frame=pl.DataFrame(comparisons),
                formats={"cut": ".1%", "cut_s": ".1f", "worse": ".1%", "worse_s": ".1f"},
            ),
        ),
    )


def compared_tails(frames: Frames, workload: str, baseline: str, policy: str = "PASCAL") -> pl.DataFrame:
    """Return the bins of two policies at the high load, as `compared` has them."""
    by_policy = {each: tails(frames[workload, "high", each]) for each in (policy, baseline)}
    return compared(by_policy, policy, baseline)


def tail_lines(cases: list[tuple[str, str, pl.DataFrame]], of: str = "ttft") -> pl.DataFrame:
    """Return tails by panel and policy, a row a bin."""
    parts = [
        tails(frame, of).with_columns(
            panel=pl.lit(panel), policy=pl.lit(policy), tokens=pl.col("from_tokens") + 128
        )
        for panel, policy, frame in cases
    ]
    return pl.concat(parts).select("panel", "policy", "tokens", "count", "statistic", "tail")


def tail_figure(
    name: str, caption: str, cases: list[tuple[str, str, pl.DataFrame]], of: str = "ttft"
) -> Figure:
    """Make a figure of tails by reasoning tokens: a panel for each first name, a line for each second."""
    label = "tail TTFT (s)" if of == "ttft" else f"tail {of} latency (s)"
    data = tail_lines(cases, of).rename({"tokens": "reasoning tokens", "tail": label})
    return lines(name, caption, data, x="reasoning tokens", y=label, by="policy", panel="panel")


def loads_page(frames: Frames, titles: Mapping[str, str]) -> Page:
    """Return Figures 11 and 12 and the KV transfers, all in one table."""
    rows = pl.DataFrame(
        [
            {
                "workload": titles[workload],
                "load": level,
                "policy": policy,
                "violations": violations(frame),
                "tokens/s": throughput(frame),
                "preempted": number((frame["preemptions"] > 0).mean()),
                "migrated": number((frame["migrations"] > 0).mean()),
                "P99 transfer (s)": p99(frame.filter(pl.col("migrations") > 0)["transfer"]),
                "P99 blocking (s)": p99(frame["blocking"]),
            }
            for workload, level, policy, frame in _rows(frames)
        ]
    )
    return Page(
        name="loads",
        title="SLO violations, throughput and KV transfers (Figures 11 and 12, section V.C)",
        parts=(
            "A request violates the objective if its QoE from the first answer token on, at 100 ms a token, "
            "is below 0.95. Throughput is all tokens over the time from the first arrival to the last "
            "completion.",
            bars(
                "figure-11",
                "Figure 11: share of requests that violate the answering objective",
                rows,
                x="load",
                y="violations",
                by="policy",
                panel="workload",
            ),
            bars(
                "figure-12",
                "Figure 12: throughput",
                rows,
                x="load",
                y="tokens/s",
                by="policy",
                panel="workload",
            ),
            Table(
                name="loads-table",
                caption="By workload, load and policy: SLO violations, throughput, the shares of requests "
                "preempted and migrated, the time of KV transfers, and the wait for the first answer token "
                "after reasoning ended, transfers aside",
                frame=rows,
                formats={
                    "violations": ".2%",
                    "tokens/s": ".0f",
                    "preempted": ".1%",
                    "migrated": ".1%",
                    "P99 transfer (s)": ".3f",
                    "P99 blocking (s)": ".2f",
                },
            ),
        ),
    )


def _scatter(frames: Frames, titles: Mapping[str, str]) -> Figure:
    parts = [
        frame.select("reasoning_tokens", "ttft")
        .drop_nulls()
        .gather_every(max(1, frame.height // _SHOWN))
        .with_columns(panel=pl.lit(f"{titles[workload]}, {level}"), policy=pl.lit(policy))
        for workload, level, policy, frame in _rows(frames)
    ]
    data = pl.concat(parts).rename({"reasoning_tokens": "reasoning tokens", "ttft": "TTFT (s)"})
    return points(
        "figure-9",
        f"Figure 9: TTFT of requests, about {_SHOWN} of each policy in a panel, evenly taken",
        data,
        x="reasoning tokens",
        y="TTFT (s)",
        by="policy",
        panel="panel",
    )


def _rows(frames: Frames) -> list[tuple[str, str, str, pl.DataFrame]]:
    return [(*key, frame) for key, frame in frames.items()]
