"""Eviction of cached prefixes by their probability of reuse, against LRU (Wang et al., ATC 2025)."""

from __future__ import annotations

from typing import Final

import polars as pl

from paceline import policies
from paceline.cost import Affine
from paceline.deployment import Cluster, Instance
from paceline.reuse import hit_curve, replayed_hits, reuse_times
from paceline.study.charts import lines
from paceline.study.model import Figure, Study, Table
from paceline.study.pages import Content, pages
from paceline.study.work import Work
from paceline.synthesis import synthesize
from paceline.trace.model import Trace

__all__ = ["run"]

#: Workload, sessions, sessions of a quick run, the seconds within which reuse is predicted.
_WORKLOADS: Final = (("alibaba-chat", 1200, 200, 300.0), ("alibaba-api", 4000, 800, 10.0))

_SHARES: Final = (0.05, 0.1, 0.2, 0.4)
"""Capacities, as shares of the capacity at which nothing is lost."""

_MOST_TURNS: Final = 4
"""Turns from this one on are one category."""

_FORMATS: Final = {
    "capacity (share)": ".0%",
    "blocks": ",d",
    "LRU, curve": ".1%",
    "LRU": ".1%",
    "reuse probability": ".1%",
    "relative": "+.1%",
    "ideal": ".1%",
    "reused": ".1%",
    "mean (s)": ",.1f",
}


def run(work: Work) -> Study:
    """Run the study.

    Parameters
    ----------
    work
        ``quick`` draws fewer sessions.

    Returns
    -------
    Study
        Its page.
    """
    rows: list[dict[str, object]] = []
    times: list[pl.DataFrame] = []
    for done, (name, many, few, life_s) in enumerate(_WORKLOADS, 1):
        sessions = work.pick(many, few)
        measured = reuse_times(_drawn(name, sessions, seed=1), by="turn")
        times.append(measured.with_columns(pl.lit(name).alias("workload")))
        rows += _compared(name, _drawn(name, sessions, seed=2), measured, life_s)
        if work.report is not None:
            work.report("workloads", done, len(_WORKLOADS))
    reuse = pl.concat(times).select(
        "workload",
        pl.col("category").cast(pl.Int64).alias("turn"),
        "reused",
        pl.col("mean_s").alias("mean (s)"),
    )
    contents: dict[str, dict[str, Content]] = {
        "eviction": {
            "kv-reuse": Table(pl.DataFrame(rows), _FORMATS),
            "kv-reuse-hits": _hits(pl.DataFrame(rows)),
            "kv-reuse-times": Table(reuse, _FORMATS),
        }
    }
    return Study(
        name="kv-reuse",
        title="Eviction by the probability of reuse",
        source="KVCache Cache in the Wild (Wang et al., USENIX ATC 2025, arXiv 2506.02634)",
        pages=pages(__package__, contents),
        quick=work.quick,
    )


def _hits(rows: pl.DataFrame) -> Figure:
    """Draw the hit rates of both orders by capacity."""
    orders = ("LRU", "reuse probability", "ideal")
    data = rows.select("workload", pl.col("capacity (share)").round(2).alias("capacity"), *orders).unpivot(
        index=["workload", "capacity"], variable_name="order", value_name="tokens found"
    )
    return lines(data, x="capacity", y="tokens found", by="order", panel="workload", x_scale="log")


def _drawn(name: str, sessions: int, *, seed: int) -> Trace:
    """Return a drawn trace with the turn of each request, the last category for all from there on."""
    trace = synthesize(name, sessions=sessions, seed=seed)
    turn = (pl.int_range(pl.len()).over("session") + 1).clip(upper_bound=_MOST_TURNS).cast(pl.Float64)
    return trace.with_frame(trace.frame.with_columns(turn.alias("turn")))


def _compared(name: str, trace: Trace, measured: pl.DataFrame, life_s: float) -> list[dict[str, object]]:
    """Return hit rates under both orders at each capacity; the distributions are of another trace."""
    known = measured.filter(pl.col("mean_s") > 0)
    reuse = {row["category"]: (row["reused"], row["mean_s"]) for row in known.rows(named=True)}
    least = int(hit_curve(trace, full_blocks=True)["capacity_blocks"][-1])
    longest = (trace.frame["prompt_tokens"] + trace.frame["output_tokens"]).max()
    assert isinstance(longest, int)
    # Every request fits, with as many blocks of another.
    capacities = sorted({max(round(share * least), 2 * longest // 16) for share in _SHARES})
    curve = hit_curve(trace, capacities=[*capacities, least], full_blocks=True)["token_hit_rate"].to_list()
    cluster = Cluster([Instance(cost=Affine(step_s=0.001), num_blocks=100)])
    chosen = {
        "LRU": policies.vllm(prefix_caching=True, max_num_batched_tokens=8192, max_num_seqs=256),
        "reuse": policies.reuse_probability(
            reuse=reuse, life_s=life_s, max_num_batched_tokens=8192, max_num_seqs=256
        ),
    }
    found = {
        policy: replayed_hits(trace, cluster, of, capacities=capacities)["token_hit_rate"].to_list()
        for policy, of in chosen.items()
    }
    return [
        {
            "workload": name,
            "capacity (share)": blocks / least,
            "blocks": blocks,
            "LRU, curve": curve[at],
            "LRU": found["LRU"][at],
            "reuse probability": found["reuse"][at],
            "relative": found["reuse"][at] / found["LRU"][at] - 1,
            "ideal": curve[-1],
        }
        for at, blocks in enumerate(capacities)
    ]
