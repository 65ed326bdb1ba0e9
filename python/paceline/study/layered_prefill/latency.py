"""Table 6: Qwen on arXiv at 1.3 requests a second, and what the number of requests does to it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl

from paceline.study.layered_prefill.measures import LATENCIES, MEASURES
from paceline.study.layered_prefill.setting import ARXIV, PAPER, Case, Runs, schedulers
from paceline.study.model import Fact, Table
from paceline.study.pages import Content
from paceline.study.paper import Stated

__all__ = ["CASES", "WITHIN", "both", "page"]

#: How close Table 6 is to be predicted.
WITHIN = 0.15
_RATE = 1.3
_LENGTHS = (78, 156, 312, 780)


def both(requests: int = 0) -> dict[str, Case]:
    """Return the two schedulers at the rate of Table 6; 0 requests: as many as the authors send."""
    return {
        name: Case(workload=ARXIV, rate=_RATE, policy=policy, requests=requests)
        for name, policy in schedulers().items()
    }


_BY_LENGTH = {(requests, name): case for requests in _LENGTHS for name, case in both(requests).items()}
CASES = {**_BY_LENGTH, **{(0, name): replace(case, spread=True) for name, case in both().items()}}


def page(runs: Runs) -> dict[str, Content]:
    """Return our latencies beside Table 6's, their spread, and the same by the length of the trace."""
    return {
        "table-6": [*_table_6(runs), *_end_to_end(runs), *_lowered(runs)],
        "table-6-spread": _spread(runs),
        "table-6-length": _by_length(runs),
    }


def _table_6(runs: Runs) -> list[Fact]:
    return [
        Fact.compare(
            stated,
            runs.middle(case, of),
            "predicted" if schedule == "layered" else "fitted",
            name=f"{MEASURES[of].name}, {schedule}",
            within=WITHIN,
            notes=(
                runs.between(case, of, stated.number),
                runs.range(case, partial(runs.middle, of=of)),
            ),
        )
        for schedule, case in both().items()
        for of, stated in PAPER.table("table-6", schedule).items()
    ]


def _end_to_end(runs: Runs) -> list[Fact]:
    facts = []
    for schedule, case in both().items():
        table = PAPER.table("table-6", schedule)
        summed = table["ttft"].number + 230 * table["tbt"].number / 1e3
        note = (
            f"Table 6's own mean TTFT and 230 gaps of its mean TBT come to {summed:.1f} s, so its end-to-end "
            "latency is of other requests than its table"
        )
        stated, ours = PAPER["e2e", schedule], runs.middle(case, "e2e")
        facts.append(Fact.compare(stated, ours, "predicted", name=f"mean E2E, {schedule}", notes=(note,)))
    return facts


def _lowered(runs: Runs) -> list[Fact]:
    """Return by how many percent layered prefill lowers each mean, in the paper and here."""
    facts = []
    for of, name in (("ttft", "TTFT"), ("tbt", "TBT"), ("e2e", "E2E")):
        chunks, groups = (
            PAPER["e2e", schedule] if of == "e2e" else PAPER["table-6", schedule, of]
            for schedule in ("chunked", "layered")
        )
        stated = Stated(
            name=f"layered prefill lowers mean {name} by",
            value=100 * (1 - groups.number / chunks.number),
            unit="%",
            where=groups.where,
        )
        case, figure = both()["layered"], partial(_cut, runs, of=of)
        note = runs.range(case, figure, "%")
        facts.append(Fact.compare(stated, figure(case), "predicted", notes=(note,)))
    return facts


def _cut(runs: Runs, case: Case, of: str) -> float:
    """Return by how many percent layered prefill lowers a figure, under the fit of a case."""
    chunks = replace(both()["chunked"], equal=case.equal)
    return 100 * (1 - runs.middle(case, of) / runs.middle(chunks, of))


def _spread(runs: Runs) -> Table:
    rows = []
    for schedule, case in both().items():
        for of, stated in PAPER.table("table-6", schedule).items():
            measure = MEASURES[of]
            values = [measure.scale * getattr(served, of) for served in runs.served(case)]
            low, mid, high = map(float, np.quantile(values, (0.25, 0.5, 0.75)))
            quartiles = {"lower quartile": low, "median": mid, "upper quartile": high}
            label = {"figure": f"{measure.name}, {schedule}", "unit": measure.unit}
            rows.append({**label, "paper": stated.value, **quartiles})
    frame = pl.DataFrame(rows)
    return Table(frame, dict.fromkeys(frame.columns[2:], ".3g"))


def _by_length(runs: Runs) -> Table:
    rows = [
        {"requests": requests, "schedule": schedule, **runs.row(case, *LATENCIES)}
        for (requests, schedule), case in _BY_LENGTH.items()
    ]
    frame = pl.DataFrame(rows)
    return Table(frame, dict.fromkeys(frame.columns[2:], ".3g"))
