"""One replica of the model: its scheduler, its cost, its running step, and its counters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from paceline.testing.reference.blocks import BlockPool
from paceline.testing.reference.cost import AffineCost
from paceline.testing.reference.request import Entry, Request, Sequence


class Step(Protocol):
    """The decision of a scheduler for one step."""

    @property
    def entries(self) -> list[Entry]:
        """Sequences of the step, in the scheduler's order."""
        ...

    def duration(self, cost: AffineCost) -> int:
        """Return how long the step takes."""
        ...

    def row(self, start: int) -> list[Any]:
        """Return the step as a row of a decision log."""
        ...


S = TypeVar("S", bound=Step)


class Scheduler(Protocol[S]):
    """One instance's scheduler, whatever its generation."""

    @property
    def pool(self) -> BlockPool:
        """KV blocks of the GPU."""
        ...

    @property
    def queued(self) -> list[Sequence]:
        """Queued sequences: new, preempted, or swapped out."""
        ...

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence that has just arrived."""
        ...

    def schedule(self) -> S | None:
        """Decide the next step; None if no sequence can run."""
        ...

    def finish(self, step: S) -> list[Sequence]:
        """End a step: return the sequences with a new token, in order."""
        ...


class Config(Protocol):
    """Settings of an instance, which make its scheduler."""

    def refusal(self, request: Request) -> str | None:
        """Return why the instance could never finish the request, or None if it could."""
        ...

    def scheduler(self) -> Scheduler[Any]:
        """Make a scheduler with an empty cache."""
        ...


@dataclass(slots=True)
class Usage:
    """The counters of an instance.

    Attributes
    ----------
    steps, preemptions, finished : int
    busy : int
        Time in which a step ran.
    tokens : int
        Tokens computed, recomputed ones included.
    running_time, waiting_time : int
        Integrals over time of the running and of the waiting sequences.
    kv_token_time : int
        Integral over time of the tokens in the KV cache, those of the running step included.
    peak_running, peak_waiting, peak_blocks : int
        The most sequences and held blocks at once, after a step was decided.
    """

    steps: int = 0
    preemptions: int = 0
    finished: int = 0
    busy: int = 0
    tokens: int = 0
    running_time: int = 0
    waiting_time: int = 0
    kv_token_time: int = 0
    peak_running: int = 0
    peak_waiting: int = 0
    peak_blocks: int = 0


@dataclass(slots=True)
class Instance:
    """One replica of the model."""

    config: Config
    cost: AffineCost
    scheduler: Scheduler[Any]
    steps: list[list[Any]] = field(default_factory=list)
    outstanding: list[Sequence] = field(default_factory=list)
    step: Step | None = None
    ends: int | None = None
    usage: Usage = field(default_factory=Usage)

    @property
    def placed(self) -> list[Sequence]:
        """Running sequences."""
        queued = set(self.scheduler.queued)
        return [sequence for sequence in self.outstanding if sequence not in queued]

    def arrive(self, sequence: Sequence) -> None:
        """Queue a request that arrives."""
        self.outstanding.append(sequence)
        self.scheduler.add(sequence)
        self.usage.peak_waiting = max(self.usage.peak_waiting, len(self.scheduler.queued))

    def start(self, now: int) -> None:
        """Form a step if none runs."""
        if self.step is not None:
            return
        before = sum(sequence.preemptions for sequence in self.outstanding)
        self.step = self.scheduler.schedule()
        if self.step is None:
            if self.outstanding:
                raise RuntimeError(f"at {now}: {len(self.outstanding)} requests wait and none can run")
            return
        for entry in self.step.entries:
            if entry.sequence.scheduled is None:
                entry.sequence.scheduled = now
        self.ends = now + self.step.duration(self.cost)
        self.steps.append(self.step.row(now))
        usage = self.usage
        usage.preemptions += sum(sequence.preemptions for sequence in self.outstanding) - before
        usage.peak_running = max(usage.peak_running, len(self.placed))
        usage.peak_waiting = max(usage.peak_waiting, len(self.scheduler.queued))
        usage.peak_blocks = max(usage.peak_blocks, self.scheduler.pool.held)

    def end(self, now: int) -> None:
        """End the running step: its tokens appear, and finished sequences leave."""
        assert self.step is not None
        self.usage.steps += 1
        self.usage.tokens += sum(entry.tokens for entry in self.step.entries)
        for sequence in self.scheduler.finish(self.step):
            sequence.token_times.append(now)
            if sequence.done:
                self.outstanding.remove(sequence)
                self.usage.finished += 1
        self.step = self.ends = None

    def pass_time(self, duration: int) -> None:
        """Account for ``duration`` in which nothing changed."""
        placed = self.placed
        self.usage.busy += duration * (self.step is not None)
        self.usage.running_time += duration * len(placed)
        self.usage.waiting_time += duration * len(self.scheduler.queued)
        self.usage.kv_token_time += duration * sum(sequence.computed for sequence in placed)
