"""Smoothness of tokens and fairness between requests, under even and bursty arrivals."""

from __future__ import annotations

import polars as pl

from paceline.study.layered_prefill.setting import ARXIV, SHAREGPT, TITLES, Case, Runs, schedulers
from paceline.study.model import Table
from paceline.study.pages import Content
from paceline.synthesis import Arrivals, BenchmarkClient, Gamma

__all__ = ["CASES", "page"]

_RATES = {ARXIV: 1.3, SHAREGPT: 4.0}
_ARRIVALS: dict[str, Arrivals] = {"Poisson": BenchmarkClient(), "bursty": Gamma(cv=3.0)}
CASES = {
    (TITLES[workload], arrivals, schedule): Case(
        workload=workload, rate=rate, policy=policy, traces=12, arrivals=process
    )
    for workload, rate in _RATES.items()
    for arrivals, process in _ARRIVALS.items()
    for schedule, policy in schedulers().items()
}
_FORMATS = {
    "Jain's index": ".3f",
    "mean TBT, ms": ".1f",
    "TBT deviation, ms": ".1f",
    "deviation over mean": ".2f",
    "mean TTFT, s": ".2f",
}


def page(runs: Runs) -> dict[str, Content]:
    """Return fairness and smoothness by workload, arrivals and schedule."""
    rows = [
        {
            "workload": workload,
            "arrivals": arrivals,
            "schedule": schedule,
            **runs.row(case, "fairness", "tbt", "tbt_std"),
            "deviation over mean": runs.middle(case, "tbt_std") / runs.middle(case, "tbt"),
            **runs.row(case, "ttft"),
        }
        for (workload, arrivals, schedule), case in CASES.items()
    ]
    return {
        "smoothness": Table(pl.DataFrame(rows), _FORMATS),
        "arxiv": str(_RATES[ARXIV]),
        "sharegpt": str(_RATES[SHAREGPT]),
    }
