"""Figures 3 and 4: attainment of objectives over rates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl

from paceline.objectives import SLO
from paceline.study.charts import lines
from paceline.study.layered_prefill.setting import (
    ARXIV,
    LAYERS,
    PAPER,
    SHAREGPT,
    SPAN_S,
    TITLES,
    Case,
    Runs,
    chunked,
    layered,
    objective,
)
from paceline.study.model import Fact, Table
from paceline.study.pages import Content

__all__ = ["CASES", "page"]

_PANELS = {
    ("qwen", ARXIV): (1.1, 1.3, 1.5, 1.7, 1.9),
    ("gpt", ARXIV): (1.9, 2.1, 2.3, 2.5, 2.7, 2.9),
    ("qwen", SHAREGPT): (3.6, 4.0, 4.4, 4.8, 5.2),
    ("gpt", SHAREGPT): (5.4, 5.8, 6.2, 6.6, 7.0),
}
_THRESHOLD = 0.9
_HELD = ("layered", "chunked 512")
_GPT_RATE = 6.2


CASES = {
    (model, workload, rate, schedule): Case(
        workload=workload, rate=rate, policy=policy, model=model, traces=6, spread=schedule in _HELD
    )
    for (model, workload), rates in _PANELS.items()
    for rate in rates
    for schedule, policy in {
        "chunked 512": chunked(),
        "chunked 1024": chunked(1024),
        "layered": layered(LAYERS[model]),
    }.items()
}


def page(runs: Runs) -> dict[str, Content]:
    """Return attainment over rates, the longest gaps, and the rates that are held."""
    frame = pl.DataFrame([_point(runs, *key, case) for key, case in CASES.items()])
    index = ["panel", "model", "workload", "rate, req/s", "schedule"]
    alone = (
        frame.unpivot(["TTFT", "TBT"], index=index, variable_name="objective", value_name="share")
        .filter(pl.col("schedule") != "chunked 1024")
        .with_columns((pl.col("schedule") + ", " + pl.col("objective")).alias("line"))
    )
    over_rates = partial(lines, x="rate, req/s", panel="panel")
    gpt = {"model": "gpt", "workload": SHAREGPT, "schedule": "chunked 512", "rate, req/s": _GPT_RATE}
    return {
        "threshold": f"{_THRESHOLD:.0%}",
        "span": str(SPAN_S),
        "gpt_rate": str(_GPT_RATE),
        "gpt_batch": f"{frame.filter(**gpt)['batch'].item():.0f}",
        "figure-3": over_rates(frame, y="attainment", by="schedule", level=_THRESHOLD),
        "figure-3-batch": over_rates(frame, y="batch", by="schedule"),
        "figure-4": over_rates(alone, y="share", by="line", level=_THRESHOLD),
        "longest-gaps": Table(_longest(runs), dict.fromkeys(("p50, ms", "p90, ms", "p99, ms"), ".0f")),
        "held-rates": [
            _held(runs, model, workload, schedule, frame)
            for model in ("qwen", "gpt")
            for workload in (ARXIV, SHAREGPT)
            for schedule in _HELD
        ],
    }


def _point(
    runs: Runs, model: str, workload: str, rate: float, schedule: str, case: Case
) -> dict[str, object]:
    slo = objective(model, workload)
    return {
        "panel": f"{TITLES[model]}, {TITLES[workload]}",
        "model": model,
        "workload": workload,
        "rate, req/s": rate,
        "schedule": schedule,
        "attainment": runs.attained(case, slo),
        "TTFT": runs.attained(case, SLO(ttft=slo.ttft)),
        "TBT": runs.attained(case, SLO(itl=slo.itl)),
        "batch": float(np.mean([served.batch for served in runs.served(case)])),
    }


def _longest(runs: Runs) -> pl.DataFrame:
    rows = []
    for rate in _PANELS["qwen", ARXIV]:
        served = runs.served(CASES["qwen", ARXIV, rate, "chunked 1024"])
        gaps = pl.concat([each.result.requests["max_itl"].drop_nulls() for each in served]).to_numpy()
        values = {f"p{share}, ms": 1e3 * float(np.quantile(gaps, share / 100)) for share in (50, 90, 99)}
        rows.append({"rate, req/s": rate, **values})
    return pl.DataFrame(rows)


def _held(runs: Runs, model: str, workload: str, schedule: str, frame: pl.DataFrame) -> Fact:
    stated = PAPER["held", model, workload, schedule]
    of = frame.filter(model=model, workload=workload, schedule=schedule)
    slo, rates = objective(model, workload), _PANELS[model, workload]
    first = CASES[model, workload, rates[0], schedule]

    def by_fit(fit: Case) -> float:
        at = (replace(CASES[model, workload, rate, schedule], equal=fit.equal) for rate in rates)
        return _through((case.rate, runs.attained(case, slo)) for case in at)

    drops = stated.more.get("drops")
    return Fact.compare(
        stated,
        _through(of.select("rate, req/s", "attainment").iter_rows()) or None,
        "predicted",
        notes=(
            f"paper: {stated.more['says']}" + ("" if drops is None else f", so below {drops}"),
            runs.range(first, by_fit),
            runs.borrowed(first),
        ),
    )


def _through(shares: Iterable[tuple[float, float]]) -> float:
    """Return the rate up to which all rates are held; 0 if the lowest is not."""
    held = 0.0
    for rate, share in shares:
        if share < _THRESHOLD:
            break
        held = rate
    return held
