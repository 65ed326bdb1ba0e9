"""Smoothness of tokens and fairness between requests, under even and bursty arrivals."""

from __future__ import annotations

import polars as pl

from paceline.study.layered_prefill.setting import ARXIV, SHAREGPT, Case, Runs, chunked, layered, middle
from paceline.study.model import Page, Table
from paceline.synthesis import Arrivals, BenchmarkClient, Gamma

__all__ = ["page", "plan"]

_RATES = {ARXIV: 1.3, SHAREGPT: 4.0}
_TITLES = {ARXIV: "arXiv", SHAREGPT: "ShareGPT"}
_ARRIVALS: dict[str, Arrivals] = {"Poisson": BenchmarkClient(), "bursty": Gamma(cv=3.0)}
_TRACES = 12


def _cases() -> list[tuple[str, str, str, Case]]:
    return [
        (
            workload,
            arrivals,
            schedule,
            Case(workload=workload, rate=rate, policy=policy, traces=_TRACES, arrivals=process),
        )
        for workload, rate in _RATES.items()
        for arrivals, process in _ARRIVALS.items()
        for schedule, policy in (("chunked", chunked()), ("layered", layered(48)))
    ]


def plan(runs: Runs) -> None:
    """Announce the replays."""
    runs.plan(*(case for *_, case in _cases()))


def page(runs: Runs) -> Page:
    """Make the page."""
    rows = []
    for workload, arrivals, schedule, case in _cases():
        served = runs.served(case)
        tbt, deviation = middle(served, "tbt"), middle(served, "tbt_std")
        rows.append(
            (
                _TITLES[workload],
                arrivals,
                schedule,
                middle(served, "fairness"),
                1e3 * tbt,
                1e3 * deviation,
                deviation / tbt,
                middle(served, "ttft"),
            )
        )
    return Page(
        name="smoothness",
        title="Smoothness and fairness",
        parts=(
            (
                "Jain's index of the requests' decode throughput (tokens a second after the first; 1 where "
                "all have the same), and the standard deviation of the gaps between tokens. Bursty "
                "arrivals have Gamma gaps with a coefficient of variation of 3. The paper's numbers are "
                "left out of the copy that this was written from."
            ),
            Table(
                name="smoothness",
                caption=f"Qwen, arXiv at {_RATES[ARXIV]}/s and ShareGPT at {_RATES[SHAREGPT]}/s (predicted)",
                frame=pl.DataFrame(
                    rows,
                    schema=[
                        "workload",
                        "arrivals",
                        "schedule",
                        "Jain's index",
                        "mean TBT, ms",
                        "TBT deviation, ms",
                        "deviation over mean",
                        "mean TTFT, s",
                    ],
                    orient="row",
                ),
                formats={
                    "Jain's index": ".3f",
                    "mean TBT, ms": ".1f",
                    "TBT deviation, ms": ".1f",
                    "deviation over mean": ".2f",
                    "mean TTFT, s": ".2f",
                },
            ),
        ),
    )
