"""A dense model, whose weights every chunk needs anyway."""

from __future__ import annotations

import polars as pl

from paceline.study.layered_prefill.setting import ARXIV, Case, Runs, schedulers
from paceline.study.model import Table
from paceline.study.pages import Content

__all__ = ["CASES", "page"]

CASES = {
    (rate, name): Case(workload=ARXIV, rate=rate, policy=policy, model="dense", traces=12)
    for rate in (2.0, 3.0, 4.0)
    for name, policy in schedulers("dense").items()
}
_COLUMNS = ("ttft", "ttft_p99", "tbt", "tbt_p99", "e2e")


def page(runs: Runs) -> dict[str, Content]:
    """Return both schedulers' latencies by rate, and where layered prefill is slower."""
    rows = [
        {"rate, req/s": rate, "schedule": schedule, **runs.row(case, *_COLUMNS)}
        for (rate, schedule), case in CASES.items()
    ]
    frame = pl.DataFrame(rows)
    return {"dense": Table(frame, dict.fromkeys(frame.columns[2:], ".3g")), "slower": _slower(frame)}


def _slower(frame: pl.DataFrame) -> str:
    """Return the rates at which layered prefill is slower, by latency."""
    found = []
    for name in ("mean TTFT, s", "mean TBT, ms", "E2E, s"):
        wide = frame.pivot("schedule", index="rate, req/s", values=name)
        rates = wide.filter(pl.col("layered") > pl.col("chunked"))["rate, req/s"].to_list()
        found.append(f"{name.partition(',')[0]} at {', '.join(f'{rate:g}' for rate in rates) or 'none'}")
    return "; ".join(found)
