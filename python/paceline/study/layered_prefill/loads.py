"""Table 7: bytes of experts loaded for 100 requests."""

from __future__ import annotations

from dataclasses import replace

from paceline.study.layered_prefill import paper
from paceline.study.layered_prefill.setting import ARXIV, SHAREGPT, Case, Runs, chunked, layered, middle
from paceline.study.model import Fact, Facts, Page

__all__ = ["POINTS", "RATES", "page", "plan", "reduction"]

#: How many percentage points the reductions may be off.
POINTS = 4.0
_REQUESTS = 100
_READING = 3
RATES = {ARXIV: 1.3, SHAREGPT: 2.0}
_OTHERS = {ARXIV: (1.0, 1.7), SHAREGPT: (1.3, 4.4)}
_TITLES = {ARXIV: "arXiv", SHAREGPT: "ShareGPT"}


def _cases(workload: str, rate: float) -> dict[str, Case]:
    return {
        name: Case(workload=workload, rate=rate, policy=policy, requests=_REQUESTS)
        for name, policy in (("chunked", chunked()), ("layered", layered(48)))
    }


def plan(runs: Runs) -> None:
    """Announce the replays."""
    for workload, rate in RATES.items():
        for each in (rate, *_OTHERS[workload]):
            cases = _cases(workload, each).values()
            runs.plan(*cases, *runs.equals(*cases))


def page(runs: Runs) -> Page:
    """Make the page."""
    facts: list[Fact] = []
    for workload in (SHAREGPT, ARXIV):
        stated = paper.TABLE_7[workload]
        loads = _loads(runs, workload, RATES[workload])
        facts += [
            Fact(
                name=f"{_TITLES[workload]}, {schedule}, a third of the bytes",
                unit="TB",
                paper=stated[schedule] / 1e12,
                ours=loads[schedule] / _READING / 1e12,
                kind="chosen to meet it",
                note="a third is the reading that meets the paper's four numbers",
            )
            for schedule in loads
        ]
        facts.append(reduction(runs, workload, RATES[workload], within=True))
        facts += [reduction(runs, workload, rate, within=False) for rate in _OTHERS[workload]]
    return Page(
        name="loads",
        title="Table 7: expert weights loaded",
        parts=(
            (
                "Table 7 counts otherwise than Table 2: 955 GB a request in chunks of 512 there, 356 GB "
                "here, for the same model, lengths and chunks. 18 chunks a prompt of a model whose experts "
                "are 58 GB cannot come to 356 GB, on both GPUs or on one. A third of the bytes, as if one "
                "of an expert's three matrices were counted, comes nearest to the four numbers, at rates "
                "that the table does not give. This reading was chosen because it meets them, so the "
                "absolute numbers below are no prediction. The reductions do not depend on it, and are "
                f"predicted.\n\nOurs are of {_REQUESTS} requests, "
                f"at {RATES[ARXIV]}/s (Table 6's) and {RATES[SHAREGPT]}/s. ShareGPT has Table 1's "
                "coverage, which was measured on it; arXiv the one that was fitted to Table 2."
            ),
            Facts(
                name="table-7",
                caption="Table 7: expert weights loaded for 100 requests of Qwen",
                facts=tuple(facts),
            ),
        ),
    )


def _loads(runs: Runs, workload: str, rate: float, equal: int = 0) -> dict[str, float]:
    return {
        schedule: _REQUESTS * middle(runs.served(replace(case, equal=equal)), "load")
        for schedule, case in _cases(workload, rate).items()
    }


def _lowered(runs: Runs, workload: str, rate: float, equal: int = 0) -> float:
    """Return by how many percent layered prefill lowers the loads."""
    loads = _loads(runs, workload, rate, equal)
    return 100 * (1 - loads["layered"] / loads["chunked"])


def reduction(runs: Runs, workload: str, rate: float, *, within: bool) -> Fact:
    """Return by how much layered prefill lowers the loads, ``within`` `POINTS` of Table 7 or as it comes."""
    table = paper.TABLE_7[workload]
    stated = 100 * (1 - table["layered"] / table["chunked"])
    ours = _lowered(runs, workload, rate)
    case = _cases(workload, rate)["layered"]
    equal = runs.range(case, lambda each: _lowered(runs, workload, rate, each.equal), "%")
    return Fact(
        name=f"{_TITLES[workload]}, reduction at {rate:g}/s",
        unit="%",
        paper=stated,
        ours=ours,
        kind="predicted",
        within=POINTS / stated if within else None,
        note="; ".join(part for part in (f"{ours - stated:+.1f} points", equal) if part),
    )
