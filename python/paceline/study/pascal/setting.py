"""What is replayed: lengths, capacity and rates."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from paceline.study.charts import curves
from paceline.study.model import Figure, Table
from paceline.study.pages import Content
from paceline.study.pascal.demand import full_step_s, load_of
from paceline.study.pascal.hardware import HOST_STEP_S, INSTANCES, kv_tokens, pascals_instance
from paceline.study.pascal.heavy import TITLE
from paceline.study.pascal.runs import LEVELS, PROMPTS, SEEDS, TIMES, Runs, Setting, asked
from paceline.study.pascal.workloads import chats, lengths_of

__all__ = ["setting_page"]

_MANY = 100_000


def setting_page(runs: Runs) -> dict[str, Content]:
    """Return lengths and rates, from the traces of the first seed."""
    drawn = {name: lengths_of(chats(name), _MANY, SEEDS[0]) for name in (*PROMPTS, "problem-solving")}
    rates = pl.DataFrame([_rates(name, runs) for name in (*PROMPTS, "heavy")])
    formats = {name: ".2f" for name in rates.columns if "requests/s" in name or "once" in name}
    lengths = pl.DataFrame([_described(name, frame) for name, frame in drawn.items()])
    return {
        "instances": str(INSTANCES),
        "kv_tokens": f"{kv_tokens(pascals_instance()):,}",
        "host_ms": f"{1e3 * HOST_STEP_S:g}",
        "times": str(TIMES),
        "loads": ", ".join(f"{level} {load:g}" for level, load in LEVELS.items()),
        "lengths": Table(
            lengths, dict.fromkeys(lengths.columns[2:], ".0f") | {"reasoning below 1,000": ".1%"}
        ),
        "figures-8-and-14": _distributions(drawn),
        "rates": Table(rates, formats | {"step at full memory (ms)": ".1f"}),
    }


def _rates(name: str, runs: Runs) -> dict[str, object]:
    traces = {level: runs.trace(Setting(trace=asked(name), load=load)) for level, load in LEVELS.items()}
    lengths, instance = traces["high"].frame, pascals_instance()
    prompts = lengths.height // TIMES
    at_once = load_of(np.zeros(prompts), lengths.head(prompts), instance)
    return {
        "workload": TITLE if name == "heavy" else chats(name).title,
        "requests": lengths.height,
        "step at full memory (ms)": 1e3 * full_step_s(lengths, instance),
        "load of each prompt asked once, all at once": at_once,
    } | {f"{level} (requests/s)": trace.rate_per_s for level, trace in traces.items()}


def _described(name: str, frame: pl.DataFrame) -> dict[str, object]:
    reasoning = frame["reasoning_tokens"]
    answer = frame["output_tokens"] - reasoning
    return {
        "workload": chats(name).title,
        "reasoning below 1,000": (reasoning < 1000).mean(),
        "reasoning mean": reasoning.mean(),
        "reasoning P50": reasoning.median(),
        "reasoning P99": reasoning.quantile(0.99),
        "answer mean": answer.mean(),
        "answer P99": answer.quantile(0.99),
        "prompt mean": frame["prompt_tokens"].mean(),
    }


def _distributions(drawn: Mapping[str, pl.DataFrame]) -> Figure:
    """Return Figures 8 and 14 as shares of requests with at most so many tokens."""
    shares = [step / 100 for step in range(1, 100)]
    parts = []
    for name, frame in drawn.items():
        reasoning = frame["reasoning_tokens"]
        for phase, tokens in (("reasoning", reasoning), ("answer", frame["output_tokens"] - reasoning)):
            counts = [tokens.quantile(share) for share in shares]
            columns = pl.DataFrame({"tokens": counts, "share of requests": shares})
            parts.append(columns.with_columns(workload=pl.lit(chats(name).title), phase=pl.lit(phase)))
    return curves(pl.concat(parts), x="tokens", y="share of requests", by="phase", panel="workload")
