"""The same comparison on a production workload: DeepSeek-R1 as ServeGen describes it.

Lengths and bursts are those of 73 clients of a far larger deployment. The ten minutes that start at 00:00 of
the day are drawn, and time is stretched until they fill the memory as the other workloads do.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import polars as pl

from paceline.errors import ConfigError
from paceline.study.model import Page, Table
from paceline.study.pascal.evaluation import tail_figure
from paceline.study.pascal.requests import number, p99, throughput, violations
from paceline.study.pascal.tails import compared, extremes, tails
from paceline.synthesis import read_servegen
from paceline.trace import Trace

__all__ = ["FILE", "absent_page", "production_page", "production_trace"]

FILE: Final = "servegen_deepseek-r1.tar.zst"
_TITLE: Final = "DeepSeek-R1 in production"


def production_trace(data: Path, seed: int) -> Trace:
    """Draw ten minutes of the production workload, at the rate at which it was served.

    Raises
    ------
    ConfigError
        If the folder holds no such file.
    """
    path = data / FILE
    if not path.is_file():
        raise ConfigError(f"{data}: must hold {FILE} (alibaba/ServeGen, data/reason/deepseek-r1), did not")
    return read_servegen(path).trace(start_s=0, span_s=600, seed=seed)


def absent_page() -> Page:
    """Return the page that says that there was no production workload."""
    return Page(
        name="production",
        title="The production workload",
        parts=(
            f"Not run: no folder was given with --data. With {FILE} in it (alibaba/ServeGen, "
            "data/reason/deepseek-r1), the comparison is done on that workload too. All other pages are "
            "independent of it.",
        ),
    )


def production_page(
    frames: dict[tuple[str, str], pl.DataFrame], trace: Trace, rates: Mapping[str, float]
) -> Page:
    """Return the page from requests by level and policy.

    Parameters
    ----------
    frames
        With the levels medium and high, the policies FCFS, RR, PASCAL and its variants.
    trace
        As it was drawn.
    rates
        Requests per second, by level.
    """
    rows = [
        {
            "load": level,
            "policy": policy,
            "violations": violations(frame),
            "tokens/s": throughput(frame),
            "P50 TTFT (s)": frame["ttft"].median(),
            "P99 TTFT (s)": p99(frame["ttft"]),
            "P99 transfer (s)": p99(frame.filter(pl.col("migrations") > 0)["transfer"]),
            "P99 blocking (s)": p99(frame["blocking"]),
        }
        for (level, policy), frame in frames.items()
    ]
    high = {policy: frame for (level, policy), frame in frames.items() if level == "high"}
    by_policy = {policy: tails(frame) for policy, frame in high.items()}
    comparisons = [
        {"against": baseline} | extremes(compared(by_policy, "PASCAL", baseline))
        for baseline in ("FCFS", "RR")
    ]
    reasoning = trace.frame["reasoning_tokens"]
    return Page(
        name="production",
        title="The production workload",
        parts=(
            "Arrivals keep their bursts, stretched in time.",
            Table(
                name="production-rates",
                caption="The trace",
                frame=pl.DataFrame(
                    {
                        "requests": [len(trace)],
                        "reasoning below 1,000": [number((reasoning < 1000).mean())],
                        "served (requests/s)": [trace.rate_per_s],
                        "medium (requests/s)": [rates["medium"]],
                        "high (requests/s)": [rates["high"]],
                    }
                ),
                formats={
                    "reasoning below 1,000": ".1%",
                    "served (requests/s)": ".1f",
                    "medium (requests/s)": ".2f",
                    "high (requests/s)": ".2f",
                },
            ),
            tail_figure(
                "production-tails",
                "Tail TTFT by reasoning tokens, high load",
                [(_TITLE, policy, high[policy]) for policy in ("FCFS", "RR", "PASCAL")],
            ),
            Table(
                name="production-table",
                caption="By load and policy",
                frame=pl.DataFrame(rows),
                formats={
                    "violations": ".2%",
                    "tokens/s": ".0f",
                    "P50 TTFT (s)": ".1f",
                    "P99 TTFT (s)": ".1f",
                    "P99 transfer (s)": ".3f",
                    "P99 blocking (s)": ".2f",
                },
            ),
            Table(
                name="production-tails-compared",
                caption="Where PASCAL's tail is shorter and longer than the baselines', at most",
                frame=pl.DataFrame(comparisons),
                formats={"cut": ".1%", "cut_s": ".1f", "worse": ".1%", "worse_s": ".1f"},
            ),
        ),
    )
