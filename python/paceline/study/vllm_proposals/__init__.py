"""Orders that were proposed for vLLM's waiting queue, on real traces, with intervals."""

from __future__ import annotations

from typing import Final

import polars as pl

from paceline import policies
from paceline.comparing import Comparison, compare
from paceline.deployment import Cluster, Instance
from paceline.errors import ConfigError
from paceline.policy import Policy
from paceline.study.charts import bars
from paceline.study.model import Study, Table
from paceline.study.pages import Content, pages
from paceline.study.work import Work
from paceline.trace import read_trace

__all__ = ["POLICIES", "run"]

POLICIES: Final[dict[str, Policy]] = {
    "FCFS": policies.vllm(prefix_caching=True),
    "cache affinity (#42185)": policies.cache_affinity(),
    "residual SJF (#51375)": policies.residual_sjf(),
}
"""vLLM's own order, and the proposals that look at the prefix cache, with their defaults."""

_UNCACHED: Final[dict[str, Policy]] = {
    "FCFS": policies.vllm(),
    "shortest prompt (#29366)": policies.shortest_prompt(),
}

#: File, requests, how the rate is multiplied, instances; the third of these loads an instance near its limit.
_TRACES: Final = {
    "Mooncake conversations": ("mooncake_conversation.jsonl.zst", 4_000, (0.5, 1.0, 1.5), 8),
    "Azure conversations": ("azure2023_conv.csv.zst", 6_000, (1.0, 6.0, 9.0), 1),
    "Azure code": ("azure2023_code.csv.zst", 6_000, (1.0, 2.0, 3.0), 1),
}

_METRICS: Final = ("mean ttft", "p99 ttft", "mean e2e")

_FORMATS: Final = {"scale": "g"}


def run(work: Work) -> Study:
    """Run the study.

    Parameters
    ----------
    work
        ``quick`` takes 600 requests of each trace. ``data`` is a folder with traces of Mooncake and Azure.

    Returns
    -------
    Study
        Its page.

    Raises
    ------
    ConfigError
        Without ``data``.
    """
    if work.data is None:
        names = ", ".join(name for name, *_ in _TRACES.values())
        raise ConfigError(
            f"the study vllm-proposals replays real traces: give a folder with {names} (--data)"
        )
    rows: list[pl.DataFrame] = []
    changes: list[pl.DataFrame] = []
    cases = [(name, scale) for name, (*_, scales, _) in _TRACES.items() for scale in scales]
    for done, (name, scale) in enumerate(cases):
        file, count, _, instances = _TRACES[name]
        whole = read_trace(work.data / file)
        trace = whole.with_frame(whole.frame.head(work.pick(count, 600)))
        known = POLICIES if "prefix" in trace.frame.columns else _UNCACHED
        cluster = Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm")] * instances)
        found = compare(trace.scaled(scale), cluster, known, draws=work.pick(1000, 100), workers=work.workers)
        rows.append(_rows(found).with_columns(pl.lit(name).alias("trace"), pl.lit(scale).alias("scale")))
        changes.append(
            _changes(found).with_columns(pl.lit(name).alias("trace"), pl.lit(f"{scale:g}").alias("scale"))
        )
        if work.report is not None:
            work.report("comparisons", done + 1, len(cases))
    table = pl.concat(rows).select("trace", "scale", "policy", *_METRICS)
    contents: dict[str, dict[str, Content]] = {
        "orders": {
            "vllm-proposals": Table(table, _FORMATS),
            "vllm-proposals-change": bars(
                pl.concat(changes),
                x="scale",
                y="mean TTFT over FCFS",
                by="policy",
                panel="trace",
                size=(5.2, 3.2),
            ),
        }
    }
    return Study(
        name="vllm-proposals",
        title="Orders proposed for vLLM's waiting queue",
        source="vLLM issues and pull requests 42185, 51375 and 29366",
        pages=pages(__package__, contents),
        quick=work.quick,
    )


def _rows(found: Comparison) -> pl.DataFrame:
    """Return a row for each policy: figures with 95% intervals, and their ratios to FCFS less 1."""
    cells: dict[str, dict[str, str]] = {}
    for row in found.table.rows(named=True):
        metric = f"{row['figure']} {row['metric']}"
        if metric not in _METRICS:
            continue
        low, high = row["low"], row["high"]
        text = f"{row['value']:.3g} s [{low:.3g}, {high:.3g}]"
        if row["ratio"] is not None:
            text += f"; {row['ratio'] - 1:+.1%} [{row['ratio_low'] - 1:+.1%}, {row['ratio_high'] - 1:+.1%}]"
        cells.setdefault(row["policy"], {})[metric] = text
    return pl.DataFrame([{"policy": policy, **metrics} for policy, metrics in cells.items()])


def _changes(found: Comparison) -> pl.DataFrame:
    """Return the mean TTFT under each order over that under FCFS."""
    others = found.table.filter(
        pl.col("figure") == "mean", pl.col("metric") == "ttft", pl.col("ratio").is_not_null()
    )
    return others.select("policy", pl.col("ratio").alias("mean TTFT over FCFS"))
