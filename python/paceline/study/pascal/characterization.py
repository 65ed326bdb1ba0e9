"""Figures 4 and 5: what FCFS and round robin do to one phase alone, on one instance with half its memory.

The paper gives 300 requests, a prompt of 128 tokens, 128 to 2,048 tokens drawn at random, Poisson arrivals,
and a memory that holds all of them at once (the oracle) or half of that. It gives no rate. The rate here is
the highest at which no request waits for memory with the whole memory of the GPU, found by bisection.

Figure 4: reasoning of 128 to 2,048 tokens, then one token of answer. Figure 5: prompts of 128 tokens whose
every further token is an answer's. There the paper starts with the KV of 128 tokens in place; here these are
computed, which takes one step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final, Literal, TypeAlias

import numpy as np
import polars as pl

from paceline.study.charts import bars, stacks
from paceline.study.model import Table
from paceline.study.pages import Content
from paceline.study.pascal.hardware import kv_tokens, pascals_instance
from paceline.study.pascal.requests import number
from paceline.study.pascal.runs import Runs
from paceline.study.pascal.schedulers import SLO_QOE, TTFAT_S, cluster_of, scheduler
from paceline.study.trials import Trial
from paceline.synthesis import Poisson
from paceline.synthesis.streams import Stream
from paceline.trace import Trace

__all__ = ["COUNTS", "Characterization", "PhaseTrace", "bisected", "split"]

Phase: TypeAlias = Literal["reasoning", "answering"]

COUNTS: Final = (128, 256, 512, 1024, 2048)
"""The lengths drawn from. The paper says "randomly selected between 128 and 2048 tokens", and shows some."""

_READINGS: Final = {"powers of two": COUNTS, "multiples of 128": tuple(range(128, 2049, 128))}
"""The lengths of the study, and another reading of the paper's words."""

_PROMPT: Final = 128
_POLICIES: Final = ("oracle", "FCFS", "RR")
_WAITING_S: Final = 0.5
"""A wait longer than one or a few steps: prompts share 512 tokens a step."""
_LOADS: Final = (0.7, 0.8, 0.9, 1.0, 1.2, 1.5)
_FORMATS: Final = {
    "executed": ".2f",
    "blocked": ".2f",
    "preempted": ".2f",
    "latency (s)": ".1f",
    "attainment": ".1%",
    "requests/s": ".2f",
    "FCFS at 128": ".2f",
    "RR at 2048": ".2f",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTrace:
    """The requests of one experiment.

    Parameters
    ----------
    phase
        ``"reasoning"`` (Figure 4) or ``"answering"`` (Figure 5).
    rate
        Requests per second.
    counts
        The lengths drawn from, all equally likely.
    """

    phase: Phase
    rate: float
    counts: tuple[int, ...] = COUNTS
    requests: int = 300

    def draw(self, seed: int) -> Trace:
        """Draw lengths and arrivals; those of a seed are the same at every rate, but for its pace."""
        chosen = Stream(seed, f"{self.phase} lengths").uniforms(self.requests)
        tokens = np.array(self.counts)[(chosen * len(self.counts)).astype(np.int64)]
        reasoning = tokens if self.phase == "reasoning" else np.zeros_like(tokens)
        return Trace.from_columns(
            name=f"{self.phase} phase",
            arrival=Poisson().times(self.requests, 1.0, seed) / self.rate,
            prompt_tokens=[_PROMPT] * self.requests,
            output_tokens=tokens + (self.phase == "reasoning"),
            reasoning_tokens=reasoning,
        )


class Characterization:
    """Both experiments; Figure 4 also at other rates and with other lengths.

    Parameters
    ----------
    runs
        The study's. The rates are found by replays at once; all others are announced.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._seeds = range(1, runs.work.pick(10, 2) + 1)
        self._rates = {name: self._highest_rate(counts) for name, counts in _READINGS.items()}
        self._own = {
            phase: PhaseTrace(phase=phase, rate=self._rates["powers of two"])
            for phase in ("reasoning", "answering")
        }
        self._others = {
            (name, load): PhaseTrace(phase="reasoning", rate=load * self._rates[name], counts=counts)
            for name, counts in _READINGS.items()
            for load in _LOADS
        }
        for trace in (*self._own.values(), *self._others.values()):
            for policy in _POLICIES:
                runs.trials.announce(self._trials(trace, policy))

    @cached_property
    def slowdowns(self) -> dict[str, float]:
        """Reasoning latency over the oracle's: of ``"FCFS"`` at 128 tokens, of ``"RR"`` at 2,048."""
        return _slowdowns(self._split(self._own["reasoning"]))

    @cached_property
    def others(self) -> pl.DataFrame:
        """`slowdowns` at other rates and with other lengths."""
        rows = []
        for (name, load), trace in self._others.items():
            slow = _slowdowns(self._split(trace))
            label = {"lengths": name, "of the highest rate": load, "requests/s": trace.rate}
            rows.append({**label, "FCFS at 128": slow["FCFS"], "RR at 2048": slow["RR"]})
        return pl.DataFrame(rows)

    def page(self) -> dict[str, Content]:
        """Return Figures 4 and 5."""
        reasoning, answering = (self._split(trace) for trace in self._own.values())
        answers = _labelled(answering, "answer tokens").with_columns(what=pl.lit("QoE of at least 0.95"))
        own = self._own["reasoning"]
        parts = ("executed", "blocked", "preempted")
        stacked = partial(stacks, by="policy", parts=parts, y="over the oracle's", mark="latency (s)")
        by_tokens = partial(bars, x="answer tokens", by="policy", panel="what", size=(8.0, 3.2))
        return {
            "requests": str(own.requests),
            "rate": f"{own.rate:.2f}",
            "kv_tokens": f"{kv_tokens(pascals_instance()):,}",
            "figure-4": stacked(_labelled(reasoning, "reasoning tokens"), x="reasoning tokens"),
            "figure-5a": stacked(_labelled(answering, "answer tokens"), x="answer tokens"),
            "figure-5b": by_tokens(answers, y="attainment"),
            "figure-4-table": Table(reasoning.drop("attainment"), _FORMATS),
            "figure-5-table": Table(answering, _FORMATS),
            "figure-4-loads": Table(self.others, _FORMATS),
        }

    def _split(self, trace: PhaseTrace) -> pl.DataFrame:
        frames = {policy: pl.concat(self._requests(trace, policy)) for policy in _POLICIES}
        return split(frames, trace.phase)

    def _requests(self, trace: PhaseTrace, policy: str) -> list[pl.DataFrame]:
        return [outcome.requests for outcome in self._runs.trials.of(self._trials(trace, policy))]

    def _trials(self, trace: PhaseTrace, policy: str) -> list[Trial]:
        cluster = cluster_of(pascals_instance(share=1.0 if policy == "oracle" else 0.5), 1)
        first_answer_s = TTFAT_S if trace.phase == "answering" else None
        chosen = scheduler("FCFS" if policy == "oracle" else policy, first_answer_s=first_answer_s)
        return [Trial(trace=trace, cluster=cluster, policy=chosen, seed=seed) for seed in self._seeds]

    def _highest_rate(self, counts: tuple[int, ...]) -> float:
        """Bisect for the highest rate at which no request waits for the whole memory, to 1%."""

        def holds(rate: float) -> bool:
            waited = pl.concat(
                self._requests(PhaseTrace(phase="reasoning", rate=rate, counts=counts), "oracle")
            )
            return not waited["preemptions"].sum() and number(waited["blocked"].max()) <= _WAITING_S

        return bisected(holds, 0.5, 16.0)


def split(frames: dict[str, pl.DataFrame], phase: Phase) -> pl.DataFrame:
    """Return mean latencies by tokens of the phase and policy, in parts of the oracle's.

    Parameters
    ----------
    frames
        Requests by policy, the oracle's first.
    phase
        ``"reasoning"`` or ``"answering"``.

    Returns
    -------
    DataFrame
        ``tokens``, ``policy``, ``executed``, ``blocked``, ``preempted`` (each over the oracle's latency),
        ``latency (s)`` and, for answers, ``attainment``.
    """
    reasons = phase == "reasoning"
    preempted = pl.col("preempted") - pl.col("preempted_answering") if reasons else pl.col("preempted")
    # QoE with a term for the first token is there where such a target was given.
    attained = pl.lit(None, dtype=pl.Float64) if reasons else (pl.col("qoe") >= SLO_QOE).mean()
    columns = ("tokens", "policy", "executed", "blocked", "preempted", "latency (s)", "attainment")
    parts = [
        frame.with_columns(tokens=pl.col("reasoning_tokens" if reasons else "answer_tokens"))
        .group_by("tokens")
        .agg(
            pl.col("reasoning" if reasons else "e2e").mean().alias("latency (s)"),
            pl.col("blocked").mean(),
            preempted.mean().alias("preempted"),
            attained.alias("attainment"),
        )
        .with_columns(executed=pl.col("latency (s)") - pl.col("blocked") - pl.col("preempted"))
        .with_columns(policy=pl.lit(policy))
        .select(columns)
        for policy, frame in frames.items()
    ]
    oracle = parts[0].select("tokens", base="latency (s)")
    return (
        pl.concat(parts)
        .join(oracle, on="tokens", maintain_order="left")
        .with_columns(pl.col("executed", "blocked", "preempted") / pl.col("base"))
        .drop("base")
        .sort("tokens", maintain_order=True)
    )


def _labelled(split: pl.DataFrame, name: str) -> pl.DataFrame:
    return split.with_columns(pl.col("tokens").cast(pl.String).alias(name))


def _slowdowns(split: pl.DataFrame) -> dict[str, float]:
    def of(policy: str, tokens: int) -> float:
        row = split.filter(policy=policy, tokens=tokens)
        return float(row.select(pl.sum_horizontal("executed", "blocked", "preempted")).item())

    return {"FCFS": of("FCFS", COUNTS[0]), "RR": of("RR", COUNTS[-1])}


def bisected(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the highest value, to 1%, at which a condition holds: at ``low`` it does, at ``high`` not."""
    while high > 1.01 * low:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
