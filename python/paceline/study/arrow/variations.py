"""What each open choice moves, and what explains differences."""

from __future__ import annotations

import polars as pl

from paceline.study.arrow.searches import Searches
from paceline.study.arrow.systems import SYSTEMS, Setting
from paceline.study.arrow.workloads import WORKLOADS
from paceline.study.choices import choices
from paceline.study.model import Table
from paceline.study.pages import Content

__all__ = ["KEYS", "SETTINGS", "choices_page", "splits_page"]

SPLITS = (2, 6, 7)
"""Instances that prefill at the start, beside the study's own 4."""

SETTINGS = {
    "": Setting(),
    "decode load of running requests": Setting(arrow={"load": "running"}),
    "low: below 0.25": Setting(arrow={"low": 0.25}),
    "busy: from 0.1": Setting(arrow={"busy": 0.1}),
    "busy: never": Setting(arrow={"busy": 1.0}),
    "monitor each 0.1 s": Setting(arrow={"period_s": 0.1}),
    "half the Max Running Tokens": Setting(arrow={"max_running_tokens": 200_000}),
    "TTFT and TPOT each at 90%": Setting(rule="marginal"),
    "TPOT objective of 50 ms": Setting(tpot=0.050),
    "8,192 tokens a step": Setting(batched_tokens=8192),
    "5 ms on the host in each step": Setting(host_step_s=5e-3),
    "13 ms on the host in each step": Setting(host_step_s=13e-3),
    "disaggregated: 32 requests a step": Setting(disaggregated_seqs=32),
    **{f"{prefill} + {8 - prefill} at the start": Setting(prefill=prefill) for prefill in SPLITS},
}
"""By name; the study's own first. Host times: vllm-project/vllm issue 6854, 5 to 13 ms a step (of 0.5.3)."""

_ALONE = {
    **{f"{prefill} + {8 - prefill} at the start": ("arrow", "minimal_load") for prefill in SPLITS},
    "disaggregated: 32 requests a step": ("disaggregated",),
    "TTFT and TPOT each at 90%": SYSTEMS,
    **dict.fromkeys(
        ("TPOT objective of 50 ms", "8,192 tokens a step"), (*SYSTEMS, "minimal_load", "replicas")
    ),
    **dict.fromkeys(
        ("5 ms on the host in each step", "13 ms on the host in each step"), (*SYSTEMS, "minimal_load")
    ),
}

KEYS = [
    (workload, system, what)
    for what in SETTINGS
    if what
    for workload in WORKLOADS
    for system in _ALONE.get(what, ("arrow",))
]
"""The searches of variations."""


def choices_page(found: Searches) -> dict[str, Content]:
    """Return the choices with what they move, and a row for each variation."""
    if found.work.quick:
        rows = [{"choice": each.what, "taken": each.taken, "why": each.why} for each in choices(__package__)]
        return {"choices-table": Table(pl.DataFrame(rows)), "variations": None, "variation-ratios": None}
    rates = {what: {name: _rate(found, name, "arrow", what) for name in WORKLOADS} for what in SETTINGS}
    table = []
    for each in choices(__package__):
        moved = [f"{what}: {_moved(rates[what], rates[''])}" for what in each.rows]
        entry = {"choice": each.what, "taken": each.taken, "why": each.why}
        table.append({**entry, "Arrow's rate otherwise": "; ".join(moved) or "not varied"})
    titles = {name: found.loads[name].title for name in WORKLOADS}
    first = pl.DataFrame(
        [
            {"what": what or "as in the study", **{titles[name]: rate for name, rate in row.items()}}
            for what, row in rates.items()
        ]
    )
    second = pl.DataFrame(
        [
            {
                "what": what or "as in the study",
                "over": over,
                **{
                    titles[name]: _rate(found, name, "arrow", what) / _rate(found, name, over, what)
                    for name in WORKLOADS
                },
            }
            for what in SETTINGS
            for over in ("tp8", "disaggregated", "minimal_load", "replicas")
            if not what or over in _ALONE.get(what, ())
        ]
    )
    formats = dict.fromkeys(titles.values(), ".3g")
    return {
        "choices-table": Table(pl.DataFrame(table)),
        "variations": Table(first, formats),
        "variation-ratios": Table(second, formats),
    }


def splits_page(found: Searches) -> dict[str, Content]:
    """Return the rates of static pools of other sizes beside Arrow's."""
    if found.work.quick:
        return {"splits": None}
    rows = []
    for name in WORKLOADS:
        row = {"trace": found.loads[name].title, "Arrow": found.rate(name, "arrow")}
        for prefill in sorted((*SPLITS, 4)):
            what = f"{prefill} + {8 - prefill}"
            setting = "" if prefill == 4 else f"{what} at the start"
            row[f"minimal load, {what}"] = found.rate(name, "minimal_load", setting)
        rows.append(row)
    return {"splits": Table(pl.DataFrame(rows), dict.fromkeys(list(rows[0])[1:], ".3g"))}


def _rate(found: Searches, workload: str, system: str, what: str) -> float:
    """Return a system's rate; the study's own where a variation does not change the system."""
    changed = not what or system in _ALONE.get(what, ("arrow",))
    return found.rate(workload, system, what if changed else "")


def _moved(row: dict[str, float], own: dict[str, float]) -> str:
    return ", ".join(f"{WORKLOADS[name].title} {rate / own[name] - 1:+.0%}" for name, rate in row.items())
