"""The page that says what is replayed: lengths, capacity and rates."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from paceline import Instance
from paceline.study.model import Figure, Page, Table
from paceline.study.pascal.demand import full_step_s, load_of
from paceline.study.pascal.drawing import curves
from paceline.study.pascal.hardware import HOST_STEP_S, INSTANCES, kv_tokens, pascals_instance
from paceline.study.pascal.runs import LEVELS, PROMPTS, SEEDS, TIMES, Runs
from paceline.study.pascal.workloads import chats, lengths_of

__all__ = ["setting_page"]

_MANY = 100_000


def setting_page(runs: Runs) -> Page:
    """Return the page of the setting, from the traces of the first seed."""
    drawn = {name: lengths_of(chats(name), _MANY, SEEDS[0]) for name in (*PROMPTS, "problem-solving")}
    instance = pascals_instance()
    rates = [_rates(name, runs, instance) for name in (*PROMPTS, "heavy")]
    loads = ", ".join(f"{level} {load:g}" for level, load in LEVELS.items())
    return Page(
        name="setting",
        title="What is replayed",
        parts=(
            f"{INSTANCES} instances of DeepSeek-R1-Distill-Qwen-32B, each on one H100 with 96 GB, of which "
            f"{kv_tokens(instance):,} tokens of KV; 100 Gbps between them, PCIe 5.0 to the host. A step "
            f"takes the roofline's time and {1e3 * HOST_STEP_S:g} ms of the host. The lengths are fitted to "
            f"the paper's text (workloads.toml says how). Each prompt is asked {TIMES} times. A load is the "
            "most KV that requests would hold at once, if none ever waited, over the memory of the cluster: "
            f"{loads}. Arrivals are Poisson.",
            Table(
                name="lengths",
                caption="Lengths in tokens (the paper's Figures 8 and 14, as far as its text gives them)",
                frame=pl.DataFrame([_described(name, frame) for name, frame in drawn.items()]),
                formats={
                    "reasoning below 1,000": ".1%",
                    "reasoning mean": ".0f",
                    "reasoning P50": ".0f",
                    "reasoning P99": ".0f",
                    "answer mean": ".0f",
                    "answer P99": ".0f",
                    "prompt mean": ".0f",
                },
            ),
            _distributions(drawn),
            Table(
                name="rates",
                caption="Rates",
                frame=pl.DataFrame(rates),
                formats={name: ".2f" for name in rates[0] if "requests/s" in name or "once" in name}
                | {"step at full memory (ms)": ".1f"},
            ),
        ),
    )


def _rates(name: str, runs: Runs, instance: Instance) -> dict[str, object]:
    traces = {level: runs.trace(name, level) for level in LEVELS}
    lengths = traces["high"].frame
    prompts = lengths.height // TIMES
    at_once = load_of(np.zeros(prompts), lengths.head(prompts), instance)
    return {
        "workload": "half Arena-Hard, half problems" if name == "heavy" else chats(name).title,
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
        for kind, tokens in (
            ("reasoning", frame["reasoning_tokens"]),
            ("answer", frame["output_tokens"] - frame["reasoning_tokens"]),
        ):
            counts = [tokens.quantile(share) for share in shares]
            parts.append(
                pl.DataFrame({"tokens": counts, "share of requests": shares}).with_columns(
                    workload=pl.lit(chats(name).title), phase=pl.lit(kind)
                )
            )
    return curves(
        "figures-8-and-14",
        "Figures 8 and 14: how many requests have at most so many tokens, 1% to 99%",
        pl.concat(parts),
        x="tokens",
        y="share of requests",
        by="phase",
        panel="workload",
    )
