"""Energy a token, over rates."""

from __future__ import annotations

import polars as pl

from paceline.study.layered_prefill.setting import (
    ARXIV,
    PAPER,
    SHAREGPT,
    TITLES,
    Case,
    Runs,
    objective,
    schedulers,
)
from paceline.study.model import Fact, Table
from paceline.study.pages import Content

__all__ = ["CASES", "page"]

_RATES = {ARXIV: (1.1, 1.3, 1.5, 1.7), SHAREGPT: (3.6, 4.0, 4.4, 4.8)}
_THRESHOLD = 0.9
CASES = {
    (workload, rate, name): Case(workload=workload, rate=rate, policy=policy, traces=6)
    for workload, rates in _RATES.items()
    for rate in rates
    for name, policy in schedulers().items()
}


def page(runs: Runs) -> dict[str, Content]:
    """Return energies by rate, and by how much layered prefill lowers them."""
    rows = [_row(runs, workload, rate) for workload, rates in _RATES.items() for rate in rates]
    frame = pl.DataFrame(rows)
    formats = dict.fromkeys(frame.columns[2:4], ".1f") | dict.fromkeys(frame.columns[5:], ".0%")
    return {
        "energy": Table(frame, formats | {"change": "+.0%"}),
        "energy-held": [_saved(frame, TITLES[workload]) for workload in _RATES],
    }


def _row(runs: Runs, workload: str, rate: float) -> dict[str, object]:
    chunks, groups = (CASES[workload, rate, name] for name in ("chunked", "layered"))
    mj = [runs.middle(case, "energy") for case in (chunks, groups)]
    slo = objective("qwen", workload)
    return {
        "workload": TITLES[workload],
        "rate, req/s": rate,
        "chunked, mJ/tok": mj[0],
        "layered, mJ/tok": mj[1],
        "change": mj[1] / mj[0] - 1,
        "chunked attains": runs.attained(chunks, slo),
        "layered attains": runs.attained(groups, slo),
    }


def _saved(frame: pl.DataFrame, workload: str) -> Fact:
    stated, held = PAPER["energy", workload], []
    for schedule in ("chunked", "layered"):
        rows = frame.filter(pl.col(f"{schedule} attains") >= _THRESHOLD, workload=workload)
        if rows.is_empty():
            return Fact.compare(stated, None, "predicted")
        held.append(rows.sort("rate, req/s").row(-1, named=True))
    chunks, groups = held
    notes = [f"chunked at {chunks['rate, req/s']:g}/s, layered at {groups['rate, req/s']:g}/s"]
    if stated.value is not None:
        notes.append("the paper's is its abstract's largest")
    ours = 100 * (1 - groups["layered, mJ/tok"] / chunks["chunked, mJ/tok"])
    return Fact.compare(stated, ours, "predicted", notes=notes)
