"""The replays of the study, each done once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import polars as pl

import paceline
from paceline import Instance
from paceline.study.pascal.demand import stretched
from paceline.study.pascal.hardware import INSTANCES, pascals_instance
from paceline.study.pascal.requests import with_paper_metrics
from paceline.study.pascal.schedulers import Arguments, cluster_of, scheduler
from paceline.study.pascal.workloads import chats, drawn, half_replaced
from paceline.study.work import Work
from paceline.trace import Trace

__all__ = ["LEVELS", "PROMPTS", "SEEDS", "TIMES", "Run", "Runs"]

LEVELS: Final = {"low": 0.9, "medium": 1.0, "high": 1.1}
"""Loads, as `demand` has them: a tenth less than the memory holds, as much, and a tenth more."""

PROMPTS: Final = {"alpacaeval": 805, "arena-hard": 500}
"""Prompts of the benchmarks (their repositories: tatsu-lab/alpaca_eval, lmarena/arena-hard-auto)."""

TIMES: Final = 5
"""How often each prompt is asked; the paper gives no number of requests.

Its rule for tails needs bins of fewer than 5, 10, 20 and 100 requests and of more, which some thousand have.
Each asked once, they do not fill the memory, at any rate.
"""

SEEDS: Final = (1, 2, 3, 4, 5)
"""Of lengths and arrivals. Figures and tables show the first; the headline numbers are medians over all."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """The outcome of a replay.

    Attributes
    ----------
    requests
        As `with_paper_metrics` returns them.
    """

    requests: pl.DataFrame


@dataclass(slots=True, kw_only=True)
class Runs:
    """Replays by workload, level, policy and seed, each done once.

    Parameters
    ----------
    work
        Reports progress.

    Attributes
    ----------
    overflows
        Preemptions, over all replays of the shipped policies, whose KV did not fit into the swap space.
    """

    work: Work
    overflows: int = field(default=0, init=False)
    _done: dict[tuple[str, str, str, int], Run] = field(default_factory=dict, init=False)
    _traces: dict[tuple[str, str, int], Trace] = field(default_factory=dict, init=False)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the headline numbers."""
        return SEEDS[:1] if self.work.quick else SEEDS

    def trace(self, workload: str, level: str, seed: int = SEEDS[0]) -> Trace:
        """Return a trace of a workload, or of the mix ``"heavy"``, at the rate that makes the load."""
        key = (workload, level, seed)
        if key not in self._traces:
            asked = TIMES * PROMPTS["arena-hard" if workload == "heavy" else workload]
            trace = (
                half_replaced(chats("arena-hard"), chats("problem-solving"), requests=asked, seed=seed)
                if workload == "heavy"
                else drawn(chats(workload), requests=asked, seed=seed)
            )
            self._traces[key] = stretched(trace, LEVELS[level], pascals_instance())
        return self._traces[key]

    def run(self, workload: str, level: str, policy: str, seed: int = SEEDS[0]) -> Run:
        """Return a replay of the evaluation."""
        key = (workload, level, policy, seed)
        if key not in self._done:
            self._done[key] = self.replay(self.trace(workload, level, seed), policy)
        return self._done[key]

    def replay(
        self,
        trace: Trace,
        policy: str,
        *,
        instance: Instance | None = None,
        arguments: Arguments | None = None,
    ) -> Run:
        """Replay a trace on the paper's cluster.

        Parameters
        ----------
        trace
            With ``reasoning_tokens``.
        policy
            One of `schedulers.POLICIES`.
        instance
            What the cluster has eight of; by default the paper's.
        arguments
            Of the policies' functions, as in `schedulers.scheduler`.
        """
        chosen = pascals_instance() if instance is None else instance
        result = paceline.replay(
            trace,
            cluster_of(chosen, INSTANCES),
            scheduler(policy, arguments=arguments),
        )
        self.work.done(f"{trace.name}: {policy}", len(trace))
        if not arguments:
            self.overflows += int(result.instances["swap_overflows"].sum())
        return Run(requests=with_paper_metrics(trace, result.requests))
