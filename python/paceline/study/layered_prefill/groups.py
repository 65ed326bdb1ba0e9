"""How many groups of layers: latency against smoothness."""

from __future__ import annotations

import polars as pl

from paceline.policies.layered_prefill import by_tokens, layered_prefill
from paceline.policy.stages import Groups
from paceline.study.charts import lines
from paceline.study.layered_prefill.setting import ARXIV, Case, Runs, middle
from paceline.study.model import Page, Table

__all__ = ["page", "plan"]

_RATE = 1.3
_TRACES = 12
_LAYERS = 48
_RULES = {
    **{str(count): Groups(most=count) for count in (1, 2, 4, 8, 16, 24, 48)},
    "one for 512 tokens": by_tokens(_LAYERS),
}


def _cases() -> dict[str, Case]:
    cases = {
        name: Case(
            workload=ARXIV, rate=_RATE, policy=layered_prefill(layers=_LAYERS, groups=rule), traces=_TRACES
        )
        for name, rule in _RULES.items()
    }
    cases["the authors' table"] = Case(
        workload=ARXIV, rate=_RATE, policy=layered_prefill(layers=_LAYERS), traces=_TRACES
    )
    return cases


def plan(runs: Runs) -> None:
    """Announce the replays."""
    runs.plan(*_cases().values())


def page(runs: Runs) -> Page:
    """Make the page."""
    columns = {
        "mean TTFT, s": ("ttft", 1.0, ".2f"),
        "p99 TTFT, s": ("ttft_p99", 1.0, ".2f"),
        "mean TBT, ms": ("tbt", 1e3, ".1f"),
        "p99 TBT, ms": ("tbt_p99", 1e3, ".1f"),
        "E2E, s": ("e2e", 1.0, ".2f"),
        "expert load, GB/req": ("load", 1e-9, ".0f"),
        "energy, mJ/tok": ("energy", 1e3, ".1f"),
    }
    rows = [
        (name, *(scale * middle(runs.served(case), of) for of, scale, _ in columns.values()))
        for name, case in _cases().items()
    ]
    frame = pl.DataFrame(rows, schema=["groups", *columns], orient="row")
    counts = frame.filter(pl.col("groups").str.contains(r"^\d+$")).with_columns(
        pl.col("groups").cast(pl.Int64)
    )
    drawn = counts.select(
        "groups",
        (pl.col("mean TTFT, s") * 1e3).alias("mean TTFT"),
        pl.col("p99 TBT, ms").alias("p99 TBT"),
        pl.col("mean TBT, ms").alias("mean TBT"),
    ).unpivot(["mean TTFT", "mean TBT", "p99 TBT"], index="groups", variable_name="of", value_name="ms")
    return Page(
        name="groups",
        title="How many groups",
        parts=(
            (
                "Few groups finish a prompt in few steps, each of which stalls the decodes for long; many "
                "groups spread it over many short ones, in each of which all decodes run. The paper takes "
                "one group for each 512 tokens of a batch, its code a table of 1 to 16 groups. Qwen on "
                f"arXiv at {_RATE}/s. The paper's numbers are left out of the copy that this was written "
                "from."
            ),
            Table(
                name="groups",
                caption="Layered prefill by the number of groups (predicted)",
                frame=frame,
                formats={name: spec for name, (_, _, spec) in columns.items()},
            ),
            lines(
                "groups-latency",
                "Latency by the number of groups (predicted)",
                drawn,
                x="groups",
                y="ms",
                by="of",
                panel="of",
                x_scale="log",
                columns=3,
            ),
        ),
    )
