"""Table 7: bytes of experts loaded for 100 requests."""

from __future__ import annotations

from dataclasses import replace

from paceline.study.layered_prefill.setting import (
    ARXIV,
    PAPER,
    SHAREGPT,
    TITLES,
    Case,
    Runs,
    schedulers,
)
from paceline.study.model import Fact
from paceline.study.pages import Content
from paceline.study.paper import Stated

__all__ = ["CASES", "POINTS", "RATES", "page", "reduction"]

#: How many percentage points the reductions may be off.
POINTS = 4.0
RATES = {SHAREGPT: 2.0, ARXIV: 1.3}
_OTHERS = {SHAREGPT: (1.3, 4.4), ARXIV: (1.0, 1.7)}
_REQUESTS = 100
_READING = 3
_RATES = {workload: (rate, *_OTHERS[workload]) for workload, rate in RATES.items()}
CASES = {
    (workload, rate, name): Case(workload=workload, rate=rate, policy=policy, requests=_REQUESTS, spread=True)
    for workload, rates in _RATES.items()
    for rate in rates
    for name, policy in schedulers().items()
}


def page(runs: Runs) -> dict[str, Content]:
    """Return bytes and reductions beside Table 7."""
    facts: list[Fact] = []
    for workload, rate in RATES.items():
        facts += [
            Fact.compare(
                PAPER["table-7", workload, schedule],
                terabytes / _READING,
                "chosen to meet it",
                name=f"{TITLES[workload]}, {schedule}, a third of the bytes",
                notes=("a third is the reading that meets the paper's four numbers",),
            )
            for schedule, terabytes in _loads(runs, workload, rate).items()
        ]
        facts.append(reduction(runs, workload, rate, within=True))
        facts += [reduction(runs, workload, other, within=False) for other in _OTHERS[workload]]
    rates = {"arxiv": str(RATES[ARXIV]), "sharegpt": str(RATES[SHAREGPT])}
    return {"table-7": facts, "requests": str(_REQUESTS), **rates}


def reduction(runs: Runs, workload: str, rate: float, *, within: bool) -> Fact:
    """Return by how much layered prefill lowers the loads, ``within`` `POINTS` of Table 7 or as it comes."""
    table = PAPER.table("table-7", workload)
    stated = Stated(
        name=f"{TITLES[workload]}, reduction at {rate:g}/s",
        value=100 * (1 - table["layered"].number / table["chunked"].number),
        unit="%",
        where=table["layered"].where,
    )

    def lowered(case: Case) -> float:
        loads = _loads(runs, workload, rate, case.equal)
        return 100 * (1 - loads["layered"] / loads["chunked"])

    case = CASES[workload, rate, "layered"]
    ours = lowered(case)
    return Fact.compare(
        stated,
        ours,
        "predicted",
        within=POINTS / stated.number if within else None,
        notes=(f"{ours - stated.number:+.1f} points", runs.range(case, lowered, "%")),
    )


def _loads(runs: Runs, workload: str, rate: float, equal: int = 0) -> dict[str, float]:
    """Return the terabytes of all requests by schedule."""
    return {
        schedule: 1e-3
        * _REQUESTS
        * runs.middle(replace(CASES[workload, rate, schedule], equal=equal), "load")
        for schedule in ("chunked", "layered")
    }
