"""The samples of a timeline as OpenMetrics text, under the names of vLLM's metrics.

vLLM a6f0308 (``vllm/v1/metrics/loggers.py``). Each instance is an ``engine``. Moments are seconds from the
trace's start. ``gpu_cache_usage_perc`` is the older name of ``kv_cache_usage_perc``; both are shares from 0
to 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import polars as pl

from paceline.benchmarks.writing.facts import facts_of
from paceline.errors import ResultError
from paceline.result import Result

__all__ = ["openmetrics_text"]


def _usage(rows: pl.DataFrame) -> pl.Series:
    return rows.get_column("kv_used_blocks") / rows.get_column("kv_total_blocks")


def _state(name: str) -> Callable[[pl.DataFrame], pl.Series]:
    return lambda rows: rows.get_column(name)


def _sum(name: str) -> Callable[[pl.DataFrame], pl.Series]:
    """Return a counter since the start: sums of a timeline are over the interval before each sample."""
    return lambda rows: rows.get_column(name).cast(pl.Float64).cum_sum()


_GAUGES: Final[dict[str, tuple[str, Callable[[pl.DataFrame], pl.Series]]]] = {
    "vllm:num_requests_running": ("Running requests.", _state("running")),
    "vllm:num_requests_waiting": ("Queued requests.", _state("waiting")),
    "vllm:num_requests_swapped": ("Swapped-out requests.", _state("swapped")),
    "vllm:kv_cache_usage_perc": ("Share of the KV blocks that requests hold; 1 is all.", _usage),
    "vllm:gpu_cache_usage_perc": ("The older name of kv_cache_usage_perc.", _usage),
}
_COUNTERS: Final[dict[str, tuple[str, Callable[[pl.DataFrame], pl.Series]]]] = {
    "vllm:num_preemptions": ("Preemptions of requests.", _sum("preemptions")),
    "vllm:prefix_cache_queries": ("Tokens looked up in the prefix cache.", _sum("prefix_queries")),
    "vllm:prefix_cache_hits": ("Tokens found in the prefix cache.", _sum("prefix_hits")),
    "vllm:request_success": ("Requests that finished.", _sum("finished")),
}


def openmetrics_text(result: Result) -> str:
    """Return the samples of a replay as OpenMetrics text with timestamps.

    Raises
    ------
    ResultError
        If the replay was not sampled.
    """
    if not result.is_sampled:
        raise ResultError(
            "openmetrics needs a sampled replay: replay with sample=1.0 for one sample a second"
        )
    model = facts_of(result).model.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    instances = [
        (int(str(index)), rows)
        for (index,), rows in result.timeline.group_by("instance", maintain_order=True)
    ]
    lines = []
    for kind, metrics in (("gauge", _GAUGES), ("counter", _COUNTERS)):
        suffix = "_total" if kind == "counter" else ""
        for name, (text, values) in metrics.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            for index, rows in instances:
                labels = f'{{engine="{index}",model_name="{model}"}}'
                lines += [
                    f"{name}{suffix}{labels} {value:.17g} {time!r}"
                    for value, time in zip(
                        values(rows).to_list(), rows.get_column("time_s").to_list(), strict=True
                    )
                ]
    return "\n".join([*lines, "# EOF", ""])
