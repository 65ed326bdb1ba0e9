"""Figures 4 and 5: what FCFS and round robin do to one phase alone, on one instance with half its memory.

The paper gives 300 requests, a prompt of 128 tokens, 128 to 2,048 tokens drawn at random, Poisson arrivals,
and a memory that holds all of them at once (the oracle) or half of that. It gives no rate. The rate here is
the highest at which no request waits for memory with the whole memory of the GPU, found by bisection.

Figure 4: reasoning of 128 to 2,048 tokens, then one token of answer. Figure 5: prompts of 128 tokens whose
every further token is an answer's. There the paper starts with the KV of 128 tokens in place; here these are
computed, which takes one step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import polars as pl

import paceline
from paceline.study.model import Page, Table
from paceline.study.pascal.drawing import bars, stacks
from paceline.study.pascal.hardware import kv_tokens, pascals_instance
from paceline.study.pascal.paper import SLO_QOE, TTFAT_S
from paceline.study.pascal.requests import number, with_paper_metrics
from paceline.study.pascal.schedulers import cluster_of, scheduler
from paceline.study.work import Work
from paceline.synthesis import Poisson
from paceline.synthesis.streams import Stream
from paceline.trace import Trace

__all__ = ["characterization_page", "characterize", "characterized", "phase_trace", "split"]

REQUESTS: Final = 300
COUNTS: Final = (128, 256, 512, 1024, 2048)
"""The lengths drawn from. The paper says "randomly selected between 128 and 2048 tokens", and shows some."""

_FINER: Final = tuple(range(128, 2049, 128))
"""Another reading of it."""

_PROMPT: Final = 128
_POLICIES: Final = ("oracle", "FCFS", "RR")
_WAITING_S: Final = 0.5
"""A wait that is more than the turn of a step or a few: prompts share 512 tokens a step."""
_LOADS: Final = (0.7, 0.8, 0.9, 1.0, 1.2, 1.5)


def phase_trace(phase: str, *, rate: float, seed: int, counts: Sequence[int] = COUNTS) -> Trace:
    """Draw the requests of one experiment.

    Parameters
    ----------
    phase
        ``"reasoning"`` (Figure 4) or ``"answering"`` (Figure 5).
    rate
        Requests per second.
    seed
        Of arrivals and lengths; the same at every rate.
    counts
        The lengths drawn from, all equally likely.
    """
    chosen = Stream(seed, f"{phase} lengths").uniforms(REQUESTS)
    tokens = np.array(counts)[(chosen * len(counts)).astype(np.int64)]
    reasoning = tokens if phase == "reasoning" else np.zeros_like(tokens)
    return Trace.from_columns(
        name=f"{phase} phase",
        arrival=Poisson().times(REQUESTS, 1.0, seed) / rate,
        prompt_tokens=[_PROMPT] * REQUESTS,
        output_tokens=tokens + (phase == "reasoning"),
        reasoning_tokens=reasoning,
    )


def characterize(work: Work) -> tuple[Page, dict[str, float], pl.DataFrame]:
    """Run both experiments.

    Returns
    -------
    Page
        Figures 4 and 5.
    dict
        Reasoning latency over the oracle's: of ``"FCFS"`` at 128 tokens, of ``"RR"`` at 2,048.
    DataFrame
        The same at other rates and with other lengths.
    """
    seeds = _seeds(work)
    rate = _highest_rate(seeds, COUNTS)
    work.done("Figures 4 and 5: rate", REQUESTS * len(seeds))
    parts = {}
    for phase in ("reasoning", "answering"):
        parts[phase] = _replays(phase, rate, seeds, COUNTS)
        work.done(f"Figures 4 and 5: {phase}", REQUESTS * len(seeds))
    others = []
    for name, counts in (("powers of two", COUNTS), ("multiples of 128", _FINER)):
        highest = _highest_rate(seeds, counts)
        for load in _LOADS:
            frames = _replays("reasoning", load * highest, seeds, counts)
            slow = _slowdowns(split(frames, "reasoning"))
            others.append((name, load, load * highest, slow["FCFS"], slow["RR"]))
            work.done("Figures 4 and 5: other rates", REQUESTS * len(seeds))
    columns = ["lengths", "of the highest rate", "requests/s", "FCFS at 128", "RR at 2048"]
    loads = pl.DataFrame(others, schema=columns, orient="row")
    page = characterization_page(parts, rate, loads)
    return page, _slowdowns(split(parts["reasoning"], "reasoning")), loads


def characterized(work: Work) -> int:
    """Return how many requests `characterize` will report."""
    return REQUESTS * len(_seeds(work)) * (3 + 2 * len(_LOADS))


def _seeds(work: Work) -> range:
    return range(1, work.pick(10, 2) + 1)


def split(frames: dict[str, pl.DataFrame], phase: str) -> pl.DataFrame:
    """Return mean latencies by tokens of the phase and policy, in parts of the oracle's.

    Parameters
    ----------
    frames
        Requests by policy, the oracle's among them.
    phase
        ``"reasoning"`` or ``"answering"``.

    Returns
    -------
    DataFrame
        ``tokens``, ``policy``, ``executed``, ``blocked``, ``preempted`` (each over the oracle's latency),
        ``latency (s)`` and, for answers, ``attainment``.
    """
    total = "reasoning" if phase == "reasoning" else "e2e"
    preempted = pl.col("preempted")
    if phase == "reasoning":
        preempted -= pl.col("preempted_answering")
    parts = []
    for policy, frame in frames.items():
        # QoE with a term for the first token is there where such a target was given.
        attained = (
            (pl.col("qoe") >= SLO_QOE).mean() if phase == "answering" else pl.lit(None, dtype=pl.Float64)
        )
        means = (
            frame.with_columns(tokens=pl.col(f"{'reasoning' if phase == 'reasoning' else 'answer'}_tokens"))
            .group_by("tokens")
            .agg(
                pl.col(total).mean().alias("latency (s)"),
                pl.col("blocked").mean(),
                preempted.mean().alias("preempted"),
                attained.alias("attainment"),
            )
            .with_columns(executed=pl.col("latency (s)") - pl.col("blocked") - pl.col("preempted"))
            .with_columns(policy=pl.lit(policy))
        )
        parts.append(
            means.select("tokens", "policy", "executed", "blocked", "preempted", "latency (s)", "attainment")
        )
    oracle = parts[0].select("tokens", base="latency (s)")
    return (
        pl.concat(parts)
        .join(oracle, on="tokens", maintain_order="left")
        .with_columns(pl.col("executed", "blocked", "preempted") / pl.col("base"))
        .drop("base")
        .sort("tokens", maintain_order=True)
    )


def characterization_page(
    frames: dict[str, dict[str, pl.DataFrame]], rate: float, loads: pl.DataFrame
) -> Page:
    """Return Figures 4 and 5 from requests by phase and policy."""
    reasoning, answering = (split(frames[phase], phase) for phase in ("reasoning", "answering"))
    answers = answering.with_columns(
        pl.col("tokens").cast(pl.String).alias("answer tokens"), what=pl.lit("QoE of at least 0.95")
    )
    return Page(
        name="phases",
        title="One phase alone (Figures 4 and 5)",
        parts=(
            f"One instance, {REQUESTS} requests a seed, {rate:.2f} requests/s: the highest rate at which "
            f"no request waits for the GPU's whole memory, {kv_tokens(pascals_instance()):,} tokens. The "
            "oracle has that memory, FCFS and round robin half of it. Averages over all seeds.",
            stacks(
                "figure-4",
                "Figure 4: mean latency of the reasoning phase over the oracle's, and in seconds",
                _labelled(reasoning, "reasoning tokens"),
                x="reasoning tokens",
                by="policy",
                parts=("executed", "blocked", "preempted"),
                y="over the oracle's",
                mark="latency (s)",
            ),
            stacks(
                "figure-5a",
                "Figure 5(a): mean latency of the answering phase over the oracle's, and in seconds",
                _labelled(answering, "answer tokens"),
                x="answer tokens",
                by="policy",
                parts=("executed", "blocked", "preempted"),
                y="over the oracle's",
                mark="latency (s)",
            ),
            bars(
                "figure-5b",
                "Figure 5(b): share of requests with a QoE of at least 0.95, for targets of 0.25 s to the "
                "first answer token and 100 ms a token",
                answers,
                x="answer tokens",
                y="attainment",
                by="policy",
                panel="what",
                size=(8.0, 3.2),
            ),
            Table(
                name="figure-4-table",
                caption="Figure 4's numbers",
                frame=reasoning.drop("attainment"),
                formats=_FORMATS,
            ),
            Table(
                name="figure-5-table",
                caption="Figure 5's numbers",
                frame=answering,
                formats=_FORMATS,
            ),
            Table(
                name="figure-4-loads",
                caption="Reasoning latency over the oracle's, at other rates and with other lengths",
                frame=loads,
                formats={"requests/s": ".2f", "FCFS at 128": ".2f", "RR at 2048": ".2f"},
            ),
        ),
    )


_FORMATS: Final = {
    "executed": ".2f",
    "blocked": ".2f",
    "preempted": ".2f",
    "latency (s)": ".1f",
    "attainment": ".1%",
}


def _labelled(split: pl.DataFrame, name: str) -> pl.DataFrame:
    return split.with_columns(pl.col("tokens").cast(pl.String).alias(name))


def _slowdowns(split: pl.DataFrame) -> dict[str, float]:
    whole = split.with_columns(total=pl.sum_horizontal("executed", "blocked", "preempted"))

    def of(policy: str, tokens: int) -> float:
        return float(
            whole.filter((pl.col("policy") == policy) & (pl.col("tokens") == tokens))["total"].item()
        )

    return {"FCFS": of("FCFS", COUNTS[0]), "RR": of("RR", COUNTS[-1])}


def _replays(phase: str, rate: float, seeds: range, counts: Sequence[int]) -> dict[str, pl.DataFrame]:
    """Return the requests of all seeds, by policy."""
    traces = [phase_trace(phase, rate=rate, seed=seed, counts=counts) for seed in seeds]
    return {policy: pl.concat([_replay(trace, policy, phase) for trace in traces]) for policy in _POLICIES}


def _replay(trace: Trace, policy: str, phase: str) -> pl.DataFrame:
    instance = pascals_instance(share=1.0 if policy == "oracle" else 0.5)
    name = "FCFS" if policy == "oracle" else policy
    chosen = scheduler(name, first_answer_s=TTFAT_S if phase == "answering" else None)
    result = paceline.replay(trace, cluster_of(instance, 1), chosen)
    return with_paper_metrics(trace, result.requests)


def _highest_rate(seeds: range, counts: Sequence[int]) -> float:
    """Bisect for the highest rate at which no request waits for the whole memory, to 1%."""

    def holds(rate: float) -> bool:
        for seed in seeds:
            trace = phase_trace("reasoning", rate=rate, seed=seed, counts=counts)
            waited = _replay(trace, "oracle", "reasoning")
            if waited["preemptions"].sum() or number(waited["blocked"].max()) > _WAITING_S:
                return False
        return True

    return bisected(holds, 0.5, 16.0)


def bisected(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the highest value, to 1%, at which a condition holds: at ``low`` it does, at ``high`` not."""
    while high > 1.01 * low:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
