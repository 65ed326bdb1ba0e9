"""Two GPUs together, or one for prefill and one for decode."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from paceline import inst
from paceline.objectives import SLO
from paceline.policy import Policy, Pools, pick
from paceline.result import Result
from paceline.study.layered_prefill import paper
from paceline.study.layered_prefill.setting import ARXIV, Case, Runs, chunked, layered, middle
from paceline.study.model import Page, Table

__all__ = ["page", "plan", "split"]

_RATES = (1.0, 1.3, 1.7, 2.1)
_TRACES = 12
_LAYERS = 48
#: Tokens of a batch of prompts on the GPU that prefills. The paper's section is left out of the copy that
#: this was written from, so it is a variation: as many as layered prefill takes, and two that cut prompts.
_BATCHES = (8192, 2048, 1024)


def split(batch: int) -> Policy:
    """Return prefill on the first instance, in batches of ``batch`` tokens, and decode on the second."""
    return Policy(
        name=f"disaggregated, batches of {batch:,}",
        scheduler=chunked(batch).scheduler,
        on_arrival=pick(min=inst.requests, within="prefill"),
        on_prefilled=pick(min=inst.requests, within="decode"),
        pools=Pools(prefill=1, decode=1),
    )


def _cases(rate: float) -> dict[str, Case]:
    return {
        name: Case(
            workload=ARXIV,
            rate=rate,
            policy=policy,
            traces=_TRACES,
            split=policy.name.startswith("disaggregated"),
        )
        for name, policy in (
            ("colocated, chunked", chunked()),
            ("colocated, layered", layered(_LAYERS)),
            *((f"disaggregated, batches of {batch:,}", split(batch)) for batch in _BATCHES),
        )
    }


def plan(runs: Runs) -> None:
    """Announce the replays."""
    for rate in _RATES:
        cases = _cases(rate).values()
        runs.plan(*cases, *runs.equals(*cases))


def page(runs: Runs) -> Page:
    """Make the page."""
    ttft, itl = paper.OBJECTIVES["qwen", ARXIV]
    slo = SLO(ttft=ttft, itl=itl)
    rows = []
    for rate in _RATES:
        for name, case in _cases(rate).items():
            served = runs.served(case)
            rows.append(
                (
                    rate,
                    name,
                    middle(served, "ttft"),
                    middle(served, "ttft_p99"),
                    1e3 * middle(served, "tbt"),
                    1e3 * middle(served, "tbt_p99"),
                    middle(served, "e2e"),
                    _attained(runs, case, slo),
                    float(np.median([_fullest(result) for result in runs.results(case)])),
                    _ends(runs, case, lambda each: middle(runs.served(each), "e2e"), ".3g"),
                    _ends(runs, case, lambda each: _attained(runs, each, slo), ".0%"),
                    "another split" if runs.borrowed(case) else "this one",
                )
            )
    figures = ["mean TTFT, s", "p99 TTFT, s", "mean TBT, ms", "p99 TBT, ms", "E2E, s"]
    frame = pl.DataFrame(
        rows,
        schema=[
            "rate, req/s",
            "arrangement",
            *figures,
            "attains",
            "KV at most",
            "E2E by fits of equal cost",
            "attains by them",
            "fitted to",
        ],
        orient="row",
    )
    return Page(
        name="disaggregated",
        title="Together, or prefill and decode apart",
        parts=(
            (
                "Qwen on arXiv, on the same two H100: both under one instance of tensor parallelism 2, or "
                "one for prefills and one for decodes, each with the whole model, and keys and values "
                "moving over NVLink. The efficiencies are those fitted to tensor parallelism 2; on one GPU "
                "they have no measurement behind them, and the last column says so. The order depends on "
                "the batch in which the GPU for prefills takes prompts: in batches of 8,192 tokens most "
                "prompts are one step or two, in batches of 1,024 experts are read again for each. With the "
                "whole model on each GPU little memory is left for keys and values: where their use nears "
                "100%, requests wait for room between their first token and their second. The paper's "
                "numbers are left out of the copy that this was written from."
            ),
            Table(
                name="disaggregated",
                caption="Colocated and disaggregated (predicted)",
                frame=frame,
                formats={**dict.fromkeys(figures, ".3g"), "attains": ".0%", "KV at most": ".0%"},
            ),
        ),
    )


def _attained(runs: Runs, case: Case, slo: SLO) -> float:
    return float(np.mean([result.attainment(slo) for result in runs.results(case)]))


def _ends(runs: Runs, case: Case, figure: Callable[[Case], float], spec: str) -> str:
    """Return the least and the most of a figure over the fits of equal cost, this one among them."""
    values = [figure(each) for each in (case, *runs.equals(case))]
    return f"{min(values):{spec}} to {max(values):{spec}}"


def _fullest(result: Result) -> float:
    """Return the share of its KV blocks that the instance that decodes had in use at most."""
    decodes = result.stats.instances[-1]
    return decodes.peak_blocks / decodes.blocks
