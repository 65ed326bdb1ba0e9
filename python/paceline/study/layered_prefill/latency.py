"""Table 6: Qwen on arXiv at 1.3 requests a second, and what the number of requests does to it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl

from paceline.study.layered_prefill import paper
from paceline.study.layered_prefill.setting import ARXIV, Case, Runs, between, chunked, layered, middle
from paceline.study.model import Fact, Facts, Page, Table

__all__ = ["WITHIN", "both", "page", "plan"]

#: How close Table 6 is to be predicted.
WITHIN = 0.15
_RATE = 1.3
_LENGTHS = (78, 156, 312, 780)
_FIGURES = (
    ("mean TTFT", "s", "ttft", 1.0),
    ("p99 TTFT", "s", "ttft_p99", 1.0),
    ("mean TBT", "ms", "tbt", 1e3),
    ("p99 TBT", "ms", "tbt_p99", 1e3),
)


def both(requests: int = 0) -> dict[str, Case]:
    """Return the two schedulers at the rate of Table 6; 0 requests: as many as the authors send."""
    return {
        name: Case(workload=ARXIV, rate=_RATE, policy=policy, requests=requests)
        for name, policy in (("chunked", chunked()), ("layered", layered(48)))
    }


def plan(runs: Runs) -> None:
    """Announce the replays."""
    for requests in _LENGTHS:
        runs.plan(*both(requests).values())
    runs.plan(*runs.equals(*both().values()))


def page(runs: Runs) -> Page:
    """Make the page."""
    facts = [
        Fact(
            name=f"{name}, {schedule}",
            unit=unit,
            paper=scale * getattr(paper.TABLE_6[schedule], of),
            ours=scale * middle(runs.served(case), of),
            kind="predicted" if schedule == "layered" else "fitted",
            within=WITHIN,
            note=_note(runs, case, schedule, of, scale),
        )
        for schedule, case in both().items()
        for name, unit, of, scale in _FIGURES
    ]
    facts += [
        Fact(
            name=f"mean E2E, {schedule}",
            unit="s",
            paper=paper.E2E[schedule],
            ours=middle(runs.served(case), "e2e"),
            kind="predicted",
            note=(
                "Table 6's own mean TTFT and 230 gaps of its mean TBT come to "
                f"{paper.TABLE_6[schedule].ttft + 230 * paper.TABLE_6[schedule].tbt:.1f} s, "
                "so its end-to-end latency is of other requests than its table"
            ),
        )
        for schedule, case in both().items()
    ]
    cut = {"TTFT": "ttft", "TBT": "tbt", "E2E": "e2e"}
    stated = {
        "TTFT": 1 - paper.TABLE_6["layered"].ttft / paper.TABLE_6["chunked"].ttft,
        "TBT": 1 - paper.TABLE_6["layered"].tbt / paper.TABLE_6["chunked"].tbt,
        "E2E": 1 - paper.E2E["layered"] / paper.E2E["chunked"],
    }
    facts += [
        Fact(
            name=f"layered prefill lowers mean {name} by",
            unit="%",
            paper=100 * stated[name],
            ours=_cut(runs, both()["layered"], of),
            kind="predicted",
            note=runs.range(both()["layered"], partial(_cut, runs, of=of), "%"),
        )
        for name, of in cut.items()
    ]
    return Page(
        name="latency",
        title="Table 6: latency of Qwen on arXiv at 1.3 requests a second",
        parts=(
            (
                "Chunked prefill runs in chunks of 512, as in the first row of Table 2 that the costs were "
                "fitted to; layered prefill is predicted. Arrivals are those of the authors' client, 120 s "
                "of them as in their driver; figures are medians over traces with drawn lengths."
            ),
            Facts(name="table-6", caption="Table 6, and section 5.5", facts=tuple(facts)),
            _spread(runs),
            (
                "The paper does not say how many requests it replayed; the authors' driver sends 120 s of "
                "its rate, and has 600 s in a comment. Queues near saturation grow with the length of a "
                "trace, and with them TTFT (60, 120, 240 and 600 s):"
            ),
            _by_length(runs),
        ),
    )


def _note(runs: Runs, case: Case, schedule: str, of: str, scale: float) -> str:
    stated = scale * getattr(paper.TABLE_6[schedule], of)
    where = between(runs.served(case), of, scale, stated)
    equal = runs.range(case, lambda each: scale * middle(runs.served(each), of))
    return "; ".join(part for part in (where, equal) if part)


def _cut(runs: Runs, case: Case, of: str) -> float:
    """Return by how many percent layered prefill lowers a figure, under the fit of a case."""
    chunks = replace(both()["chunked"], equal=case.equal)
    return 100 * (1 - middle(runs.served(case), of) / middle(runs.served(chunks), of))


def _spread(runs: Runs) -> Table:
    rows = []
    for schedule, case in both().items():
        for name, unit, of, scale in _FIGURES:
            values = [scale * getattr(served, of) for served in runs.served(case)]
            low, mid, high = np.quantile(values, (0.25, 0.5, 0.75))
            stated = scale * getattr(paper.TABLE_6[schedule], of)
            rows.append((f"{name}, {schedule}", unit, stated, float(low), float(mid), float(high)))
    return Table(
        name="table-6-spread",
        caption="The same, by trace: the quartiles over drawn traces (predicted)",
        frame=pl.DataFrame(
            rows,
            schema=["figure", "unit", "paper", "lower quartile", "median", "upper quartile"],
            orient="row",
        ),
        formats=dict.fromkeys(("paper", "lower quartile", "median", "upper quartile"), ".3g"),
    )


def _by_length(runs: Runs) -> Table:
    rows = []
    for requests in _LENGTHS:
        for schedule, case in both(requests).items():
            served = runs.served(case)
            rows.append((requests, schedule, *(scale * middle(served, of) for _, _, of, scale in _FIGURES)))
    names = [f"{name}, {unit}" for name, unit, _, _ in _FIGURES]
    return Table(
        name="table-6-length",
        caption="The same by the number of requests in a trace (predicted)",
        frame=pl.DataFrame(rows, schema=["requests", "schedule", *names], orient="row"),
        formats=dict.fromkeys(names, ".3g"),
    )
