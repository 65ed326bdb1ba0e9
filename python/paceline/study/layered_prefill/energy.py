"""Energy a token, over rates."""

from __future__ import annotations

import numpy as np
import polars as pl

from paceline.objectives import SLO
from paceline.study.layered_prefill import paper
from paceline.study.layered_prefill.setting import ARXIV, SHAREGPT, Case, Runs, chunked, layered, middle
from paceline.study.model import Fact, Facts, Page, Table

__all__ = ["page", "plan"]

_RATES = {ARXIV: (1.1, 1.3, 1.5, 1.7), SHAREGPT: (3.6, 4.0, 4.4, 4.8)}
_TITLES = {ARXIV: "arXiv", SHAREGPT: "ShareGPT"}
_TRACES = 6
_THRESHOLD = 0.9
_COLUMNS = ["chunked, mJ/tok", "layered, mJ/tok", "change", "chunked attains", "layered attains"]


def _cases(workload: str, rate: float) -> dict[str, Case]:
    return {
        name: Case(workload=workload, rate=rate, policy=policy, traces=_TRACES)
        for name, policy in (("chunked", chunked()), ("layered", layered(48)))
    }


def plan(runs: Runs) -> None:
    """Announce the replays: those of Figure 3."""
    for workload, rates in _RATES.items():
        for rate in rates:
            runs.plan(*_cases(workload, rate).values())


def page(runs: Runs) -> Page:
    """Make the page."""
    rows = []
    for workload, rates in _RATES.items():
        ttft, itl = paper.OBJECTIVES["qwen", workload]
        slo = SLO(ttft=ttft, itl=itl)
        for rate in rates:
            cases = _cases(workload, rate)
            mj = {name: 1e3 * middle(runs.served(case), "energy") for name, case in cases.items()}
            shares = {
                name: float(np.mean([result.attainment(slo) for result in runs.results(case)]))
                for name, case in cases.items()
            }
            rows.append(
                (
                    _TITLES[workload],
                    rate,
                    mj["chunked"],
                    mj["layered"],
                    mj["layered"] / mj["chunked"] - 1,
                    shares["chunked"],
                    shares["layered"],
                )
            )
    frame = pl.DataFrame(rows, schema=["workload", "rate, req/s", *_COLUMNS], orient="row")
    return Page(
        name="energy",
        title="Energy a token",
        parts=(
            (
                "Joules of both GPUs over tokens of prompt and output. One number is fitted to the "
                "energies of Table 2, the watts of a busy GPU that no byte or FLOP explains; the energies "
                "of bytes and FLOPs are the catalog's. The paper's section on energy is left out of the "
                "copy that this was written from; its abstract says up to 22% less, at rates of each "
                "scheduler's own."
            ),
            Table(
                name="energy",
                caption="Energy a token of Qwen at the same rates (predicted)",
                frame=frame,
                formats={
                    "chunked, mJ/tok": ".1f",
                    "layered, mJ/tok": ".1f",
                    "change": "+.0%",
                    "chunked attains": ".0%",
                    "layered attains": ".0%",
                },
            ),
            Facts(
                name="energy-held",
                caption=(
                    "By how much layered prefill lowers it, each scheduler at the highest of these rates at "
                    "which 90% of requests are within objectives (predicted)"
                ),
                facts=tuple(_saved(frame, workload) for workload in _TITLES.values()),
            ),
        ),
    )


def _saved(frame: pl.DataFrame, workload: str) -> Fact:
    held = {}
    for schedule in ("chunked", "layered"):
        rows = frame.filter(
            (pl.col("workload") == workload) & (pl.col(f"{schedule} attains") >= _THRESHOLD)
        ).sort("rate, req/s")
        held[schedule] = rows.row(-1, named=True) if len(rows) else None
    chunks, groups = held["chunked"], held["layered"]
    if chunks is None or groups is None:
        return Fact(name=f"less energy a token, {workload}", unit="%", ours=None, kind="predicted")
    return Fact(
        name=f"less energy a token, {workload}",
        unit="%",
        paper=22.0 if workload == _TITLES[ARXIV] else None,
        ours=100 * (1 - groups["layered, mJ/tok"] / chunks["chunked, mJ/tok"]),
        kind="predicted",
        note=(
            f"chunked at {chunks['rate, req/s']:g}/s, layered at {groups['rate, req/s']:g}/s"
            + ("; the paper's is its abstract's largest" if workload == _TITLES[ARXIV] else "")
        ),
    )
