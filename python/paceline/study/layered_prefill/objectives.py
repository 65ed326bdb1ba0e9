"""Figures 3 and 4: attainment of objectives over rates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from paceline.objectives import SLO
from paceline.study.charts import lines
from paceline.study.layered_prefill import paper
from paceline.study.layered_prefill.setting import (
    ARXIV,
    SHAREGPT,
    SPAN_S,
    Case,
    Runs,
    chunked,
    layered,
)
from paceline.study.model import Fact, Facts, Page, Table

__all__ = ["page", "plan"]

_LAYERS = {"qwen": 48, "gpt": 24}
_PANELS = {
    ("qwen", ARXIV): (1.1, 1.3, 1.5, 1.7, 1.9),
    ("gpt", ARXIV): (1.9, 2.1, 2.3, 2.5, 2.7, 2.9),
    ("qwen", SHAREGPT): (3.6, 4.0, 4.4, 4.8, 5.2),
    ("gpt", SHAREGPT): (5.4, 5.8, 6.2, 6.6, 7.0),
}
_TITLES = {"qwen": "Qwen", "gpt": "GPT", ARXIV: "arXiv", SHAREGPT: "ShareGPT"}
_TRACES = 6
_THRESHOLD = 0.9
_HELD = ("layered", "chunked 512")
_GPT_RATE = 6.2

# Section 5.2: the highest rate named at which a scheduler holds 90%, and the lowest at which it does not.
_SAID = {
    ("qwen", ARXIV, "layered"): (1.7, None, "about all through 1.7"),
    ("qwen", ARXIV, "chunked 512"): (None, 1.5, "far fewer at 1.5"),
    ("qwen", SHAREGPT, "layered"): (4.8, None, "still ahead at 4.8"),
    ("qwen", SHAREGPT, "chunked 512"): (None, 4.4, "fewer at 4.4"),
    ("gpt", ARXIV, "layered"): (2.7, None, "all from 2.1 to 2.7"),
    ("gpt", ARXIV, "chunked 512"): (2.3, None, "fewer beyond 2.3"),
    ("gpt", SHAREGPT, "layered"): (6.4, None, "over 90% from 5.8 to 6.4"),
    ("gpt", SHAREGPT, "chunked 512"): (None, 6.2, "far fewer at 6.2"),
}


def _cases(model: str, workload: str, rate: float) -> dict[str, Case]:
    policies = {"chunked 512": chunked(), "chunked 1024": chunked(1024), "layered": layered(_LAYERS[model])}
    return {
        name: Case(
            workload=workload,
            rate=rate,
            policy=policy,
            model=model,
            traces=_TRACES,
        )
        for name, policy in policies.items()
    }


def plan(runs: Runs) -> None:
    """Announce the replays."""
    for (model, workload), rates in _PANELS.items():
        for rate in rates:
            cases = _cases(model, workload, rate)
            runs.plan(*cases.values(), *runs.equals(*(cases[name] for name in _HELD)))


def page(runs: Runs) -> Page:
    """Make the page."""
    frame = _attainment(runs)
    parts = frame.unpivot(
        ["TTFT", "TBT"],
        index=["panel", "model", "workload", "rate, req/s", "schedule"],
        variable_name="objective",
        value_name="share",
    ).filter(pl.col("schedule") != "chunked 1024")
    parts = parts.with_columns((pl.col("schedule") + ", " + pl.col("objective")).alias("line"))
    return Page(
        name="objectives",
        title="Figures 3 and 4: attainment of objectives",
        parts=(
            (
                "A request attains its objectives (Table 5) where TTFT and each gap between its tokens are "
                f"within them; a scheduler holds a rate where {_THRESHOLD:.0%} of requests do. Each trace "
                f"lasts {SPAN_S} s. GPT is predicted with the efficiencies fitted to Qwen, 16-bit experts "
                "as the paper runs it, and uniform routing.\n\nThe paper finds lower attainment in chunks of "
                "1,024 than of 512, by violations of TBT. Ours is higher: the objective is 125 ms for Qwen, "
                "and Table 2 has a p99 of 83 ms for that chunk, at which few requests have a gap above it; "
                "the table below has our longest gaps.\n\n" + _gpt(frame)
            ),
            lines(
                "figure-3",
                "Figure 3: share of requests within both objectives (predicted)",
                frame,
                x="rate, req/s",
                y="attainment",
                by="schedule",
                panel="panel",
                level=_THRESHOLD,
            ),
            lines(
                "figure-3-batch",
                "Figure 3, dotted: requests running on average (predicted)",
                frame,
                x="rate, req/s",
                y="batch",
                by="schedule",
                panel="panel",
            ),
            lines(
                "figure-4",
                "Figure 4: the same, each objective alone (predicted)",
                parts,
                x="rate, req/s",
                y="share",
                by="line",
                panel="panel",
                level=_THRESHOLD,
            ),
            Table(
                name="longest-gaps",
                caption="The longest gap of a request in chunks of 1,024, Qwen on arXiv (predicted)",
                frame=_longest(runs),
                formats=dict.fromkeys(("p50, ms", "p90, ms", "p99, ms"), ".0f"),
            ),
            Facts(
                name="held-rates",
                caption=(
                    "The highest of the rates tried at which 90% of requests are within objectives. The "
                    "paper says up to where, not where it ends"
                ),
                facts=_held(runs, frame),
            ),
        ),
    )


def _attainment(runs: Runs) -> pl.DataFrame:
    rows = []
    for (model, workload), rates in _PANELS.items():
        ttft, itl = paper.OBJECTIVES[model, workload]
        for rate in rates:
            for schedule, case in _cases(model, workload, rate).items():
                results = runs.results(case)
                both, first, gaps = (
                    float(np.mean([result.attainment(slo) for result in results]))
                    for slo in (SLO(ttft=ttft, itl=itl), SLO(ttft=ttft), SLO(itl=itl))
                )
                batch = float(np.mean([served.batch for served in runs.served(case)]))
                panel = f"{_TITLES[model]}, {_TITLES[workload]}"
                rows.append((panel, model, workload, rate, schedule, both, first, gaps, batch))
    return pl.DataFrame(
        rows,
        schema=[
            "panel",
            "model",
            "workload",
            "rate, req/s",
            "schedule",
            "attainment",
            "TTFT",
            "TBT",
            "batch",
        ],
        orient="row",
    )


def _gpt(frame: pl.DataFrame) -> str:
    at = frame.filter(
        model="gpt", workload=SHAREGPT, schedule="chunked 512", **{"rate, req/s": _GPT_RATE}
    ).row(0, named=True)
    return (
        "On ShareGPT GPT holds more here than in the paper, where gaps grow past 100 ms with the batch. At "
        f"{_GPT_RATE}/s {at['batch']:.0f} requests run at once here, and up to 128 there: with as many "
        "arriving and as many tokens each, its steps take longer than Qwen's efficiencies have them."
    )


def _longest(runs: Runs) -> pl.DataFrame:
    rows = []
    for rate in _PANELS["qwen", ARXIV]:
        gaps = pl.concat(
            [
                result.requests["max_itl"].drop_nulls()
                for result in runs.results(_cases("qwen", ARXIV, rate)["chunked 1024"])
            ]
        ).to_numpy()
        rows.append((rate, *(1e3 * float(value) for value in np.quantile(gaps, (0.5, 0.9, 0.99)))))
    return pl.DataFrame(rows, schema=["rate, req/s", "p50, ms", "p90, ms", "p99, ms"], orient="row")


def _held(runs: Runs, frame: pl.DataFrame) -> tuple[Fact, ...]:
    facts = []
    for (model, workload, schedule), (through, drops, words) in _SAID.items():
        of = frame.filter(model=model, workload=workload, schedule=schedule)
        held = 0.0
        for rate, share in of.select("rate, req/s", "attainment").iter_rows():
            if share < _THRESHOLD:
                break
            held = rate
        facts.append(
            Fact(
                name=f"{_TITLES[model]} on {_TITLES[workload]}, {schedule}",
                unit="req/s",
                paper=through,
                ours=held or None,
                kind="predicted",
                note="; ".join(
                    part
                    for part in (
                        f"paper: {words}" + ("" if drops is None else f", so below {drops}"),
                        _held_by_equals(runs, model, workload, schedule),
                        runs.borrowed(_cases(model, workload, _PANELS[model, workload][0])[schedule]),
                    )
                    if part
                ),
            )
        )
    return tuple(facts)


def _held_by_equals(runs: Runs, model: str, workload: str, schedule: str) -> str:
    """Say what rates are held under the fits of equal cost; 0 where the lowest is not."""
    ttft, itl = paper.OBJECTIVES[model, workload]
    slo = SLO(ttft=ttft, itl=itl)
    rates = _PANELS[model, workload]

    def held(first: Case) -> float:
        highest = 0.0
        for rate in rates:
            case = replace(_cases(model, workload, rate)[schedule], equal=first.equal)
            if np.mean([result.attainment(slo) for result in runs.results(case)]) < _THRESHOLD:
                break
            highest = rate
        return highest

    return runs.range(_cases(model, workload, rates[0])[schedule], held)
