"""Both schedulers beyond the paper's tables: rates, arrivals, models, offline, long contexts, other GPUs."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from paceline.study.layered_prefill import objectives
from paceline.study.layered_prefill.setting import (
    ARXIV,
    LONG_PROMPTS,
    SHAREGPT,
    TITLES,
    Case,
    Runs,
    schedulers,
)
from paceline.study.model import Table
from paceline.study.pages import Content
from paceline.synthesis import Arrivals, BenchmarkClient, Gamma, Poisson, Regular

__all__ = ["AT_ONCE", "BY_CONTEXT", "CASES", "page"]

_TRACES = 6
_OFFLINE = 200
_LATENCIES = {"ttft": ".2f", "ttft_p99": ".2f", "tbt": ".1f", "tbt_p99": ".1f", "e2e": ".2f"}
_ARRIVALS: dict[str, Arrivals] = {
    "authors' client": BenchmarkClient(),
    "Poisson": Poisson(),
    "even": Regular(),
    "bursty": Gamma(cv=3.0),
}
#: GPUs, and the rate at which each is asked: Table 6's, times the bandwidth of its memory over an H100's.
_GPUS = {"h20": 1.5, "a100-80gb": 0.8, "h100-sxm": 1.3, "h200": 1.9, "b200": 3.1}
_RATE, _MEAN_PROMPT = 1.3, 9_194

_BY_ARRIVALS = {
    (rate, arrivals, schedule): Case(
        workload=ARXIV, rate=rate, policy=policy, traces=_TRACES, arrivals=process
    )
    for rate in (1.1, _RATE, 1.5)
    for arrivals, process in _ARRIVALS.items()
    for schedule, policy in schedulers().items()
}
AT_ONCE = {
    (model, workload, schedule): Case(
        workload=workload,
        rate=1e6,
        policy=policy,
        model=model,
        requests=_OFFLINE,
        traces=_TRACES,
        arrivals=Regular(),
    )
    for model in ("qwen", "gpt")
    for workload in (ARXIV, SHAREGPT)
    for schedule, policy in schedulers(model).items()
}
BY_CONTEXT = {
    (prompt, schedule): Case(
        workload=workload,
        rate=_RATE * _MEAN_PROMPT / prompt,
        policy=policy,
        requests=120,
        traces=1,
    )
    for prompt, workload in LONG_PROMPTS.items()
    for schedule, policy in schedulers().items()
}
_BY_GPU = {
    (gpu, rate, schedule): Case(workload=ARXIV, rate=rate, policy=policy, traces=_TRACES, gpu=gpu)
    for gpu, rate in _GPUS.items()
    for schedule, policy in schedulers().items()
}
_GROUPS = (_BY_ARRIVALS.items(), AT_ONCE.items(), BY_CONTEXT.items(), _BY_GPU.items())
CASES: dict[object, Case] = {key: case for group in _GROUPS for key, case in group}


def page(runs: Runs) -> dict[str, Content]:
    """Return latencies by rate, arrivals, context and GPU, and throughput offline."""
    rates = {
        (TITLES[model], TITLES[workload], rate, schedule): case
        for (model, workload, rate, schedule), case in objectives.CASES.items()
        if schedule != "chunked 1024"
    }
    at_once = {
        (TITLES[model], TITLES[workload], schedule): case
        for (model, workload, schedule), case in AT_ONCE.items()
    }
    return {
        "elsewhere-rates": _table(runs, ("model", "workload", "rate, req/s", "schedule"), rates.items()),
        "elsewhere-arrivals": _table(runs, ("rate, req/s", "arrivals", "schedule"), _BY_ARRIVALS.items()),
        "elsewhere-offline": _offline(runs, at_once.items()),
        "elsewhere-contexts": _table(runs, ("prompt tokens", "schedule"), BY_CONTEXT.items()),
        "elsewhere-gpus": _table(runs, ("GPUs", "rate, req/s", "schedule"), _BY_GPU.items()),
        "requests": str(_OFFLINE),
    }


def _table(runs: Runs, index: tuple[str, ...], cases: Iterable[tuple[tuple[object, ...], Case]]) -> Table:
    rows = [
        {
            **dict(zip(index, key, strict=True)),
            **runs.row(case, *_LATENCIES),
            "fitted to": _fitted(runs, case),
        }
        for key, case in cases
    ]
    frame = pl.DataFrame(rows)
    figures = frame.columns[len(index) : -1]
    return Table(frame, dict(zip(figures, _LATENCIES.values(), strict=True)))


def _offline(runs: Runs, cases: Iterable[tuple[tuple[object, ...], Case]]) -> Table:
    rows = [
        {
            **dict(zip(("model", "workload", "schedule"), key, strict=True)),
            **runs.row(case, "throughput", "load", "energy"),
            "fitted to": _fitted(runs, case),
        }
        for key, case in cases
    ]
    frame = pl.DataFrame(rows)
    return Table(frame, dict(zip(frame.columns[3:-1], (".0f", ".0f", ".1f"), strict=True)))


def _fitted(runs: Runs, case: Case) -> str:
    """Say whether the costs were fitted to the GPUs and the model of the case."""
    return "others" if runs.borrowed(case) else "these"
