"""Trials: each replayed once, on any number of threads, with progress that adds up."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from paceline import Affine, Cluster, Instance, Trace, policies
from paceline.errors import TraceError
from paceline.result import Result
from paceline.study import Trial, Trials, Work

# A step takes a second, so that a request alone ends after as many seconds as it has output tokens.
CLUSTER = Cluster([Instance(cost=Affine(step_s=1.0, token_s=0.0, kv_token_s=0.0), num_blocks=101)])
LOCK = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lone:
    """A request of as many output tokens as the seed, and others long after it."""

    requests: int
    drawn: Counter[tuple[int, int]] = field(compare=False, default_factory=Counter)

    def draw(self, seed: int) -> Trace:
        with LOCK:
            self.drawn[self.requests, seed] += 1
        return Trace.from_columns(
            arrival=[1000.0 * index for index in range(self.requests)],
            prompt_tokens=[1] * self.requests,
            output_tokens=[seed] * self.requests,
        )


def _first_e2e(_: Trial, __: Trace, result: Result) -> float:
    return float(result.requests["e2e"][0])


def _trial(seed: int, requests: int = 2) -> Trial:
    return Trial(trace=Lone(requests=requests), cluster=CLUSTER, policy=policies.vllm(), seed=seed)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_outcomes_come_in_the_order_asked_for_whatever_the_threads(workers: int) -> None:
    seeds = [3, 1, 4, 1, 5, 9, 2, 6]
    trials = Trials(_first_e2e, Work(workers=workers))
    assert trials.of(map(_trial, seeds)) == [float(seed) for seed in seeds]
    assert trials.of(map(_trial, reversed(seeds))) == [float(seed) for seed in reversed(seeds)]


def test_equal_trials_are_replayed_once_and_their_trace_is_drawn_once() -> None:
    replayed: Counter[Trial] = Counter()

    def measure(trial: Trial, trace: Trace, result: Result) -> float:
        with LOCK:
            replayed[trial] += 1
        return _first_e2e(trial, trace, result)

    drawn: Counter[tuple[int, int]] = Counter()
    source = Lone(requests=2, drawn=drawn)
    trials = Trials(measure, Work(workers=4))
    others = [policies.vllm(), policies.vllm(max_num_seqs=1), policies.vllm(max_num_seqs=2)]
    asked = [Trial(trace=source, cluster=CLUSTER, policy=policy, seed=7) for policy in others]
    trials.announce(asked)
    trials.of(asked + [replace(trial, trace=Lone(requests=2)) for trial in asked])
    assert set(replayed.values()) == {1}
    assert len(replayed) == 3
    assert drawn == {(2, 7): 1}
    assert trials.trace(source, 7) is trials.trace(Lone(requests=2), 7)


def test_progress_counts_requests_up_to_the_announced_total() -> None:
    reports: list[tuple[str, int, int]] = []
    trials = Trials(_first_e2e, Work(workers=3, report=lambda *words: reports.append(words)))
    trials.announce(_trial(seed, requests=seed) for seed in (1, 2, 3))
    trials.announce([_trial(2, requests=2)])
    trials.of([_trial(3, requests=3)])
    # All that were announced, in any order.
    assert [total for _, _, total in reports] == [6, 6, 6]
    done = [0, *(done for _, done, _ in reports)]
    assert sorted(after - before for before, after in itertools.pairwise(done)) == [1, 2, 3]
    trials.of([_trial(3, requests=3)])
    assert len(reports) == 3
    trials.of([_trial(4, requests=4)])
    assert reports[-1] == (policies.vllm().name, 10, 10)


def test_progress_is_reported_on_the_thread_that_runs_the_study() -> None:
    threads = set()
    work = Work(workers=3, report=lambda *_: threads.add(threading.get_ident()))
    Trials(_first_e2e, work).of(map(_trial, (1, 2, 3)))
    assert threads == {threading.get_ident()}


def test_the_error_of_the_first_failed_trial_is_raised() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Broken:
        requests: int = 1

        def draw(self, seed: int) -> Trace:
            raise TraceError(f"seed {seed} has no trace")

    def broken(seed: int) -> Trial:
        return replace(_trial(1), trace=Broken(), seed=seed)

    with pytest.raises(TraceError, match="seed 2 has no trace"):
        Trials(_first_e2e, Work(workers=2)).of([_trial(1), broken(2), broken(3)])


def test_trials_that_differ_in_any_part_are_other_trials() -> None:
    trial = _trial(1)
    others = (
        replace(trial, trace=Lone(requests=3)),
        replace(trial, cluster=Cluster(2 * list(CLUSTER.instances))),
        replace(trial, policy=policies.vllm(max_num_seqs=1)),
        replace(trial, seed=2),
    )
    assert len({trial, replace(trial), *others}) == 5
