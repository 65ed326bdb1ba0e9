"""Trials: replays of a trace, a cluster, a policy and a seed, each done once, on all cores.

Trials run on threads. `paceline.replay` releases the interpreter while the engine runs, and polars while it
computes columns, so threads keep the cores busy. Processes would have to pickle traces, policies and results.

A trial's outcome depends on the trial alone: a trace is drawn from its seed, and the engine is deterministic.
So outcomes depend neither on the order of the trials nor on the number of threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from paceline._jobs import Heed, Jobs
from paceline.deployment import Cluster
from paceline.policy import Policy
from paceline.replaying import replay
from paceline.result import Result
from paceline.study.work import Work
from paceline.synthesis import Arrivals, Workload, synthesize
from paceline.trace import Trace

__all__ = ["Drawn", "Source", "Trial", "Trials"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Source(Hashable, Protocol):
    """Where a trial's trace comes from. Equal sources draw equal traces from the same seed."""

    @property
    def requests(self) -> int:
        """How many requests a drawn trace has."""
        ...

    def draw(self, seed: int) -> Trace:
        """Draw the trace of a seed. Called at most once for each seed, on any thread."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Traces drawn from a workload, as `paceline.synthesis.synthesize` draws them.

    Parameters
    ----------
    workload, rate, requests, arrivals
        As of `synthesize`.
    """

    workload: Workload
    requests: int
    rate: float | None = None
    arrivals: Arrivals | None = None

    def draw(self, seed: int) -> Trace:
        """Draw lengths, and arrivals if their process is a random one."""
        return synthesize(
            self.workload, requests=self.requests, rate=self.rate, seed=seed, arrivals=self.arrivals
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A replay, named by all that its outcome depends on. Equal trials have equal outcomes.

    Parameters
    ----------
    trace
        What draws the trace.
    cluster, policy
        As of `paceline.replay`.
    seed
        Of the trace.
    """

    trace: Source
    cluster: Cluster
    policy: Policy
    seed: int = 0


class Trials(Generic[V]):
    """The outcomes of trials, each replayed once.

    Trials may be announced before they are needed. The first outcome that is asked for runs all announced
    trials together; their requests are the total that progress is reported of.

    Parameters
    ----------
    measure
        Reduces a replay to the outcome that is kept. Called on the thread of the replay.
    work
        The number of threads, and where progress is reported.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import paceline
    >>> from paceline.study import Trial, Trials, Work
    >>> @dataclass(frozen=True)
    ... class Once:
    ...     requests: int
    ...     def draw(self, seed):
    ...         return paceline.Trace.from_columns(
    ...             arrival=range(self.requests), prompt_tokens=[1] * self.requests, output_tokens=[1 + seed]
    ...             * self.requests
    ...         )
    >>> cost = paceline.Affine(step_s=0.5, token_s=0.0, kv_token_s=0.0)
    >>> cluster = paceline.Cluster([paceline.Instance(cost=cost, num_blocks=9)])
    >>> trials = Trials(lambda trial, trace, result: result.requests["e2e"][0], Work())
    >>> policy = paceline.policies.vllm()
    >>> trials.of(Trial(trace=Once(2), cluster=cluster, policy=policy, seed=seed) for seed in (0, 1))
    [0.5, 1.0]
    """

    def __init__(self, measure: Callable[[Trial, Trace, Result], V], work: Work) -> None:
        self._measure = measure
        self._work = work
        self._announced: dict[Trial, None] = {}
        self._outcomes: dict[Trial, V] = {}
        self._traces: _Once[tuple[Source, int], Trace] = _Once(lambda key: key[0].draw(key[1]))
        self._total = self._done = 0

    def announce(self, trials: Iterable[Trial]) -> None:
        """Add trials to those that the next call of `of` or `run` replays."""
        for trial in trials:
            if trial not in self._announced and trial not in self._outcomes:
                self._announced[trial] = None
                self._total += trial.trace.requests

    def run(self) -> None:
        """Replay the announced trials.

        Raises
        ------
        PacelineError
            As `paceline.replay` and the drawing of traces do; of several failed trials, the one that was
            announced first.
        """
        waiting, self._announced = self._announced, {}
        trials = list(waiting)
        outcomes: dict[int, V] = {}
        with closing(Jobs(trials, self._replay, workers=self._work.threads()).ended()) as ended:
            for place, outcome in filter(None, ended):
                outcomes[place] = outcome
                self._done += trials[place].trace.requests
                if self._work.report is not None:
                    self._work.report(trials[place].policy.name, self._done, self._total)
        self._outcomes.update((trial, outcomes[place]) for place, trial in enumerate(trials))

    def of(self, trials: Iterable[Trial]) -> list[V]:
        """Return the outcomes of trials, in their order; those not yet replayed are replayed now."""
        wanted = list(trials)
        self.announce(wanted)
        if self._announced and any(trial in self._announced for trial in wanted):
            self.run()
        return [self._outcomes[trial] for trial in wanted]

    def outcomes(self) -> Iterable[tuple[Trial, V]]:
        """Return the trials replayed so far, with their outcomes."""
        return self._outcomes.items()

    def trace(self, source: Source, seed: int) -> Trace:
        """Return the trace that a source draws from a seed."""
        return self._traces[source, seed]

    def _replay(self, trial: Trial, heed: Heed) -> V:
        trace = self.trace(trial.trace, trial.seed)
        result = replay(trace, trial.cluster, trial.policy, progress=lambda _: heed(0.0))
        return self._measure(trial, trace, result)


class _Once(Generic[K, V]):
    """Values by key, each computed once, also where several threads ask for it at the same time."""

    def __init__(self, compute: Callable[[K], V]) -> None:
        self._compute = compute
        self._lock = threading.Lock()
        self._values: dict[K, Future[V]] = {}

    def __getitem__(self, key: K) -> V:
        with self._lock:
            found = self._values.get(key)
            first = found is None
            value: Future[V] = Future() if found is None else found
            self._values[key] = value
        if first:
            try:
                value.set_result(self._compute(key))
            except BaseException as error:
                value.set_exception(error)  # raised below, on every thread that asked
        return value.result()
