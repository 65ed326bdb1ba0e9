"""A dense model, whose weights every chunk needs anyway."""

from __future__ import annotations

import polars as pl

from paceline.study.layered_prefill.setting import ARXIV, Case, Runs, chunked, layered, middle
from paceline.study.model import Page, Table

__all__ = ["page", "plan"]

_RATES = (2.0, 3.0, 4.0)
_TRACES = 12
_LAYERS = 32


def _cases(rate: float) -> dict[str, Case]:
    return {
        name: Case(workload=ARXIV, rate=rate, policy=policy, model="dense", traces=_TRACES)
        for name, policy in (("chunked", chunked()), ("layered", layered(_LAYERS)))
    }


def plan(runs: Runs) -> None:
    """Announce the replays."""
    for rate in _RATES:
        runs.plan(*_cases(rate).values())


def page(runs: Runs) -> Page:
    """Make the page."""
    rows = []
    for rate in _RATES:
        cases = _cases(rate)
        for schedule, case in cases.items():
            served = runs.served(case)
            rows.append(
                (
                    rate,
                    schedule,
                    middle(served, "ttft"),
                    middle(served, "ttft_p99"),
                    1e3 * middle(served, "tbt"),
                    1e3 * middle(served, "tbt_p99"),
                    middle(served, "e2e"),
                )
            )
    names = ["mean TTFT, s", "p99 TTFT, s", "mean TBT, ms", "p99 TBT, ms", "E2E, s"]
    frame = pl.DataFrame(rows, schema=["rate, req/s", "schedule", *names], orient="row")
    return Page(
        name="dense",
        title="A dense model",
        parts=(
            (
                "Llama-3.1-8B on the same two H100, with the catalog's efficiencies: nothing here is "
                "fitted. A dense chunk of 512 tokens is bound by arithmetic, and decodes ride along for "
                "nothing. Layers that run decodes alone, as all but one group do in layered prefill, read "
                "their weights for a few tokens; and who arrives while a batch is on its way waits for all "
                "its groups. " + _verdict(frame)
            ),
            Table(
                name="dense",
                caption="Llama-3.1-8B on arXiv (predicted)",
                frame=frame,
                formats=dict.fromkeys(names, ".3g"),
            ),
        ),
    )


def _verdict(frame: pl.DataFrame) -> str:
    """Say at which rates layered prefill is slower."""
    slower = {}
    for name in ("mean TTFT, s", "mean TBT, ms", "E2E, s"):
        wide = frame.pivot("schedule", index="rate, req/s", values=name)
        rates = wide.filter(pl.col("layered") > pl.col("chunked"))["rate, req/s"].to_list()
        slower[name.partition(",")[0]] = ", ".join(f"{rate:g}" for rate in rates) or "none"
    said = "; ".join(f"{name} at {rates}" for name, rates in slower.items())
    return f"Rates at which layered prefill is the slower of the two: {said}."
