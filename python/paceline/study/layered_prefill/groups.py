"""How many groups of layers: latency against smoothness."""

from __future__ import annotations

import polars as pl

from paceline.policies.layered_prefill import by_tokens, layered_prefill
from paceline.policy.stages import Groups
from paceline.study.charts import lines
from paceline.study.layered_prefill.setting import ARXIV, LAYERS, Case, Runs
from paceline.study.model import Table
from paceline.study.pages import Content

__all__ = ["CASES", "page"]

_RATE = 1.3
_QWEN = LAYERS["qwen"]
_POLICIES = {
    **{
        str(count): layered_prefill(layers=_QWEN, groups=Groups(most=count))
        for count in (1, 2, 4, 8, 16, 24, 48)
    },
    "one for 512 tokens": layered_prefill(layers=_QWEN, groups=by_tokens(_QWEN)),
    "the authors' table": layered_prefill(layers=_QWEN),
}
CASES = {
    name: Case(workload=ARXIV, rate=_RATE, policy=policy, traces=12) for name, policy in _POLICIES.items()
}
_COLUMNS = {
    "ttft": ".2f",
    "ttft_p99": ".2f",
    "tbt": ".1f",
    "tbt_p99": ".1f",
    "e2e": ".2f",
    "load": ".0f",
    "energy": ".1f",
}


def page(runs: Runs) -> dict[str, Content]:
    """Return latencies, loads and energies by the number of groups."""
    frame = pl.DataFrame([{"groups": name, **runs.row(case, *_COLUMNS)} for name, case in CASES.items()])
    counts = frame.filter(pl.col("groups").str.contains(r"^\d+$")).select(
        pl.col("groups").cast(pl.Int64),
        (pl.col("mean TTFT, s") * 1e3).alias("mean TTFT"),
        pl.col("mean TBT, ms").alias("mean TBT"),
        pl.col("p99 TBT, ms").alias("p99 TBT"),
    )
    long = counts.unpivot(index="groups", variable_name="of", value_name="ms")
    return {
        "groups": Table(frame, dict(zip(frame.columns[1:], _COLUMNS.values(), strict=True))),
        "groups-latency": lines(long, x="groups", y="ms", by="of", panel="of", x_scale="log", columns=3),
        "rate": str(_RATE),
    }
