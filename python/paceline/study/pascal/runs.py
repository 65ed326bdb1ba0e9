"""The settings that are replayed, and their requests by policy and seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import polars as pl

from paceline import Instance
from paceline.result import Result
from paceline.study.choices import median_rows
from paceline.study.pascal.demand import stretched
from paceline.study.pascal.hardware import INSTANCES, pascals_instance
from paceline.study.pascal.requests import with_paper_metrics
from paceline.study.pascal.schedulers import POLICIES, Arguments, cluster_of, scheduler
from paceline.study.pascal.workloads import Asked, Served, chats
from paceline.study.trials import Source, Trial, Trials
from paceline.study.work import Work
from paceline.trace import Trace

__all__ = ["BASE", "LEVELS", "PROMPTS", "SEEDS", "TIMES", "VARIANTS", "WORKLOADS", "Frames", "Runs"]
__all__ += ["Outcome", "Setting", "asked"]

LEVELS: Final = {"low": 0.9, "medium": 1.0, "high": 1.1}
"""Loads, as `demand` has them: a tenth less than the memory holds, as much, and a tenth more."""

PROMPTS: Final = {"alpacaeval": 805, "arena-hard": 500}
"""Prompts of the benchmarks (their repositories: tatsu-lab/alpaca_eval, lmarena/arena-hard-auto)."""

WORKLOADS: Final = tuple(PROMPTS)
BASE: Final = ("FCFS", "RR", "PASCAL")
VARIANTS: Final = ("PASCAL(NoMigration)", "PASCAL(NonAdaptive)")

TIMES: Final = 5
"""How often each prompt is asked; the paper gives no number of requests.

Its rule for tails needs bins of fewer than 5, 10, 20 and 100 requests and of more, which some thousand have.
Each asked once, they do not fill the memory, at any rate.
"""

SEEDS: Final = (1, 2, 3, 4, 5)
"""Of lengths and arrivals. Figures and tables show the first; the headline numbers are medians over all."""

#: Requests by workload, level of load and policy.
Frames: TypeAlias = Mapping[tuple[str, str, str], pl.DataFrame]


def asked(workload: str, times: int | None = None) -> Asked:
    """Return the traces of a workload, or of the mix ``"heavy"``, each prompt asked so many times."""
    name = "arena-hard" if workload == "heavy" else workload
    requests = (TIMES if times is None else times) * PROMPTS.get(name, PROMPTS["arena-hard"])
    half = chats("problem-solving") if workload == "heavy" else None
    return Asked(workload=chats(name), requests=requests, half=half)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretched:
    """Traces stretched to a load, as `Trials` asks for them."""

    trace: Source
    load: float
    instance: Instance

    @property
    def requests(self) -> int:
        return self.trace.requests

    def draw(self, seed: int) -> Trace:
        return stretched(self.trace.draw(seed), self.load, self.instance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What policies are compared on.

    Parameters
    ----------
    trace
        What draws the requests, at a rate of its own.
    load
        As `demand` has it.
    instance
        The instance that the cluster has eight of.
    arguments
        Of the policies' functions, as in `schedulers.scheduler`.
    """

    trace: Source
    load: float = LEVELS["high"]
    instance: Instance = field(default_factory=pascals_instance)
    arguments: Arguments = field(default_factory=dict)

    @property
    def stretched(self) -> Source:
        """What draws the traces at the load."""
        return _Stretched(trace=self.trace, load=self.load, instance=self.instance)

    def trial(self, policy: str, seed: int) -> Trial:
        """Return the replay of a policy."""
        return Trial(
            trace=self.stretched,
            cluster=cluster_of(self.instance, INSTANCES),
            policy=scheduler(policy, arguments=self.arguments),
            seed=seed,
        )


class Outcome(NamedTuple):
    """What is kept of a replay: its requests, and preemptions whose KV did not fit into the swap space."""

    requests: pl.DataFrame
    overflows: int


def _measured(_: Trial, trace: Trace, result: Result) -> Outcome:
    overflows = int(result.instances["swap_overflows"].sum())
    return Outcome(with_paper_metrics(trace, result.requests), overflows)


class Runs:
    """The study's trials.

    Parameters
    ----------
    work
        How to run.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self.trials: Trials[Outcome] = Trials(_measured, work)
        self.seeds = SEEDS[: work.pick(len(SEEDS), 1)]

    def seeds_of(self, setting: Setting) -> tuple[int, ...]:
        """Return the seeds whose medians are taken: one of the production workload, which has one trace."""
        return SEEDS[:1] if isinstance(setting.trace, Served) else self.seeds

    @property
    def overflows(self) -> int:
        """Preemptions, over all replays of the shipped policies, whose KV did not fit into the swap space."""
        shipped = {scheduler(name) for name in POLICIES}
        return sum(outcome.overflows for trial, outcome in self.trials.outcomes() if trial.policy in shipped)

    def announce(
        self, settings: Iterable[Setting], policies: Sequence[str], seeds: Sequence[int] | None = None
    ) -> None:
        """Add replays to those of the next run; by default of `seeds_of` each."""
        for setting in settings:
            for seed in self.seeds_of(setting) if seeds is None else seeds:
                self.trials.announce(setting.trial(policy, seed) for policy in policies)

    def frames(
        self, setting: Setting, policies: Sequence[str], seed: int = SEEDS[0]
    ) -> dict[str, pl.DataFrame]:
        """Return the requests of a setting by policy, with the paper's metrics."""
        found = self.trials.of([setting.trial(policy, seed) for policy in policies])
        return {policy: outcome.requests for policy, outcome in zip(policies, found, strict=True)}

    def trace(self, setting: Setting, seed: int = SEEDS[0]) -> Trace:
        """Return the trace of a setting."""
        return self.trials.trace(setting.stretched, seed)

    def evaluation(
        self, workloads: Sequence[str], levels: Sequence[str], policies: Sequence[str], seed: int = SEEDS[0]
    ) -> dict[tuple[str, str, str], pl.DataFrame]:
        """Return the requests of the paper's evaluation."""
        return {
            (workload, level, policy): frame
            for workload in workloads
            for level in levels
            for policy, frame in self.frames(
                Setting(trace=asked(workload), load=LEVELS[level]), policies, seed
            ).items()
        }

    def compared(
        self,
        settings: Mapping[str, Setting],
        policies: Sequence[str],
        numbers: Callable[[Mapping[str, pl.DataFrame]], Mapping[str, float]],
    ) -> pl.DataFrame:
        """Return a row for each setting: ``what``, and the medians of its numbers over the seeds."""
        return median_rows(
            {
                what: [numbers(self.frames(setting, policies, seed)) for seed in self.seeds_of(setting)]
                for what, setting in settings.items()
            }
        )
