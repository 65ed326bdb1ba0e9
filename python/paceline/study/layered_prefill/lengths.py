"""Table 4: the lengths that are drawn."""

from __future__ import annotations

import polars as pl

from paceline.study.layered_prefill.setting import PAPER, SPAN_S, Case, Runs
from paceline.study.model import Table
from paceline.study.pages import Content
from paceline.synthesis import synthesize

__all__ = ["CASES", "page"]

CASES: dict[str, Case] = {}


def page(runs: Runs) -> dict[str, Content]:
    """Return the lengths beside Table 4, and where they come from."""
    sources = (f"- {name}: {runs.workload(name).source}" for name in PAPER.names("table-4"))
    return {"table-4": _table(runs), "sources": "\n".join(sources), "span": str(SPAN_S)}


def _table(runs: Runs) -> Table:
    rows = []
    for name in PAPER.names("table-4"):
        drawn = synthesize(runs.workload(name), requests=20_000, rate=1.0, seed=0).frame
        for side in PAPER.names("table-4", name):
            tokens, stated = drawn.get_column(side), PAPER.table("table-4", name, side)
            ours = {"mean": tokens.mean(), "p90": tokens.quantile(0.9), "std": tokens.std()}
            for of, value in ours.items():
                label = {"workload": name, "side": side, "statistic": of}
                rows.append({**label, "paper": stated[of].value, "ours": value})
    off = (pl.col("ours") / pl.col("paper") - 1).alias("off")
    return Table(pl.DataFrame(rows).with_columns(off), {"ours": ".0f", "off": "+.1%"})
