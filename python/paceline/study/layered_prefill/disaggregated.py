"""Two GPUs together, or one for prefill and one for decode."""

from __future__ import annotations

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
_BATCH = 8192


def split() -> Policy:
    """Return prefill on the first instance and decode on the second.

    Nobody decodes beside the prefills, so that they are not cut below a batch of 8,192 tokens.
    """
    return Policy(
        name="disaggregated",
        scheduler=chunked(_BATCH).scheduler,
        on_arrival=pick(min=inst.requests, within="prefill"),
        on_prefilled=pick(min=inst.requests, within="decode"),
        pools=Pools(prefill=1, decode=1),
    )


def _cases(rate: float) -> dict[str, Case]:
    return {
        name: Case(
            workload=ARXIV, rate=rate, policy=policy, traces=_TRACES, split=policy.name == "disaggregated"
        )
        for name, policy in (
            ("colocated, chunked", chunked()),
            ("colocated, layered", layered(_LAYERS)),
            ("disaggregated", split()),
        )
    }


def plan(runs: Runs) -> None:
    """Announce the replays."""
    for rate in _RATES:
        runs.plan(*_cases(rate).values())


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
                    float(np.mean([result.attainment(slo) for result in runs.results(case)])),
                    float(np.median([_fullest(result) for result in runs.results(case)])),
                )
            )
    figures = ["mean TTFT, s", "p99 TTFT, s", "mean TBT, ms", "p99 TBT, ms", "E2E, s"]
    frame = pl.DataFrame(
        rows, schema=["rate, req/s", "arrangement", *figures, "attains", "KV at most"], orient="row"
    )
    return Page(
        name="disaggregated",
        title="Together, or prefill and decode apart",
        parts=(
            (
                "Qwen on arXiv, on the same two H100: both under one instance of tensor parallelism 2, or "
                "one for prefills and one for decodes, each with the whole model, and keys and values "
                "moving over NVLink. The efficiencies are those fitted to tensor parallelism 2; on one GPU "
                "they have no measurement behind them. With the whole model on each GPU little memory is "
                "left for keys and values: where the last column nears 100%, requests wait for room "
                "between their first token and their second. The paper's numbers are left out of the copy "
                "that this was written from."
            ),
            Table(
                name="disaggregated",
                caption="Colocated and disaggregated (predicted)",
                frame=frame,
                formats={**dict.fromkeys(figures, ".3g"), "attains": ".0%", "KV at most": ".0%"},
            ),
        ),
    )


def _fullest(result: Result) -> float:
    """Return the share of its KV blocks that the instance that decodes had in use at most."""
    decodes = result.stats.instances[-1]
    return decodes.peak_blocks / decodes.blocks
