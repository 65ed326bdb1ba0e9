"""The capacity of Sarathi-Serve, vLLM 0.6.1 and Orca under bounds on the time between tokens."""

from __future__ import annotations

from typing import Final

import polars as pl

from paceline.study.charts import bars
from paceline.study.model import Figure, Study, Table
from paceline.study.pages import Content, pages
from paceline.study.sarathi.setting import (
    BOUNDS_S,
    DELAY_S,
    WORKLOADS,
    Case,
    highest,
    requests,
    systems,
    traces,
)
from paceline.study.sarathi.steps import FORMATS, longer
from paceline.study.work import Work

__all__ = ["BOUNDS_S", "Case", "run", "systems"]

_UP_TO: Final = {"Mistral-7B": 2.6, "Yi-34B": 3.7}
_FORMATS: Final = dict.fromkeys(("vLLM", "Orca", "Sarathi-Serve", "over vLLM", "paper", "ours"), ".2f")


def run(work: Work) -> Study:
    """Run the study.

    Parameters
    ----------
    work
        ``quick`` draws one trace of 150 requests of one workload. ``data`` is a folder that may have
        Sarathi-Serve's lengths of ShareGPT; else these are drawn from a distribution fitted to them.

    Returns
    -------
    Study
        Its page.
    """
    names = list(WORKLOADS)[: work.pick(2, 1)]
    cases = [Case(model, workload, bound) for model, bound in BOUNDS_S for workload in names]
    rows: list[dict[str, object]] = []
    for done, case in enumerate(cases):
        drawn, rates = traces(case.workload, work), dict[str, float]()
        for name, policy in systems(case.bound).items():
            rates[name] = highest(case, drawn, policy, work.workers).rate or 0.0
        ratio = rates["Sarathi-Serve"] / rates["vLLM"] if rates["vLLM"] else None
        bound = f"{BOUNDS_S[case.model, case.bound]:g} s"
        rows.append(
            {
                "model": case.model,
                "workload": case.workload,
                "P99 TBT": bound,
                **rates,
                "over vLLM": ratio,
            }
        )
        if work.report is not None:
            work.report("cases", done + 1, len(cases))
    table = pl.DataFrame(rows)
    most = table.group_by("model", maintain_order=True).agg(pl.col("over vLLM").max().alias("ours"))
    claims = most.select("model", pl.col("model").replace_strict(_UP_TO).alias("paper"), "ours")
    contents: dict[str, dict[str, Content]] = {
        "capacity": {
            "requests": f"{requests(work):,}",
            "traces": str(work.pick(2, 1)),
            "delay": f"{DELAY_S:g}",
            "sarathi": Table(table, _FORMATS),
            "sarathi-rates": _rates(table),
            "sarathi-claims": Table(claims, _FORMATS),
            "sarathi-steps": Table(longer(work), FORMATS),
        }
    }
    return Study(
        name="sarathi",
        title="The capacity of Sarathi-Serve",
        source="Agrawal et al., OSDI 2024 (arXiv:2403.02310)",
        pages=pages(__package__, contents),
        quick=work.quick,
    )


def _rates(table: pl.DataFrame) -> Figure:
    """Draw the rates of the schedulers, in a panel for each model."""
    names = tuple(systems("strict"))
    data = table.with_columns(pl.concat_str("workload", "P99 TBT", separator=", ").alias("case")).unpivot(
        names, index=["model", "case"], variable_name="system", value_name="requests/s"
    )
    return bars(data, x="case", y="requests/s", by="system", panel="model", size=(5.4, 3.2))
