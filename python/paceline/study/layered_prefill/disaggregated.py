"""Two GPUs together, or one for prefill and one for decode."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from paceline import inst
from paceline.policy import Policy, Pools, pick
from paceline.result import Result
from paceline.study.layered_prefill.setting import ARXIV, Case, Runs, chunked, objective, schedulers
from paceline.study.model import Table
from paceline.study.pages import Content

__all__ = ["CASES", "page", "split"]

#: Tokens of a batch of prompts on the GPU that prefills. The copy of the paper at hand lacks this section, so
#: the batch is a variation: as many tokens as layered prefill takes, and two sizes that cut prompts.
_BATCHES = (8192, 2048, 1024)
_COLUMNS = ("ttft", "ttft_p99", "tbt", "tbt_p99", "e2e")


def split(batch: int) -> Policy:
    """Return prefill on the first instance, in batches of ``batch`` tokens, and decode on the second."""
    return Policy(
        name=f"disaggregated, batches of {batch:,}",
        scheduler=chunked(batch).scheduler,
        on_arrival=pick(min=inst.requests, within="prefill"),
        on_prefilled=pick(min=inst.requests, within="decode"),
        pools=Pools(prefill=1, decode=1),
    )


_TOGETHER = {f"colocated, {name}": policy for name, policy in schedulers().items()}
_APART = {policy.name: policy for policy in map(split, _BATCHES)}
CASES = {
    (rate, name): Case(workload=ARXIV, rate=rate, policy=policy, traces=12, split=name in _APART, spread=True)
    for rate in (1.0, 1.3, 1.7, 2.1)
    for name, policy in (_TOGETHER | _APART).items()
}


def page(runs: Runs) -> dict[str, Content]:
    """Return latencies, attainment and use of memory by rate and arrangement."""
    slo = objective("qwen", ARXIV)
    rows = [
        {
            "rate, req/s": rate,
            "arrangement": name,
            **runs.row(case, *_COLUMNS),
            "attains": runs.attained(case, slo),
            "KV at most": float(np.median([_fullest(served.result) for served in runs.served(case)])),
            "E2E by fits of equal cost": _ends(runs, case, lambda each: runs.middle(each, "e2e"), ".3g"),
            "attains by them": _ends(runs, case, lambda each: runs.attained(each, slo), ".0%"),
            "fitted to": "another split" if runs.borrowed(case) else "this one",
        }
        for (rate, name), case in CASES.items()
    ]
    frame = pl.DataFrame(rows)
    formats = dict.fromkeys(frame.columns[2:7], ".3g") | {"attains": ".0%", "KV at most": ".0%"}
    return {"disaggregated": Table(frame, formats)}


def _ends(runs: Runs, case: Case, figure: Callable[[Case], float], spec: str) -> str:
    """Return the least and the most of a figure over the fits of equal cost, this one among them."""
    values = [figure(each) for each in (case, *runs.equals(case))]
    return f"{min(values):{spec}} to {max(values):{spec}}"


def _fullest(result: Result) -> float:
    """Return the largest share of its KV blocks that the instance that decodes had in use."""
    decodes = result.stats.instances[-1]
    return decodes.peak_blocks / decodes.blocks
