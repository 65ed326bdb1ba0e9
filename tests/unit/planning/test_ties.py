"""Requests that arrive at one moment: a scale of the arrivals does not spread them."""

from __future__ import annotations

import warnings

import pytest

import paceline
from paceline.errors import TraceWarning
from paceline.planning.ties import Ties, ties_of

SERVER = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.5), num_blocks=99)])


def trace(arrivals: list[float]) -> paceline.Trace:
    n = len(arrivals)
    return paceline.Trace.from_columns(arrival=arrivals, prompt_tokens=[1] * n, output_tokens=[1] * n)


def capacity(arrivals: list[float], target: float) -> paceline.Capacity:
    one_at_a_time = paceline.policies.vllm(max_num_seqs=1)
    return paceline.capacity(trace(arrivals), SERVER, one_at_a_time, paceline.SLO(ttft=0.6), target)


def test_pairs_fail_at_every_rate_and_a_warning_says_why() -> None:
    # The second of each pair waits for the first, 0.5 s, and has its token after 1.0 s, at any rate.
    pairs = [float(i // 2) for i in range(40)]
    with pytest.warns(TraceWarning, match=r"100\.0% of the requests .* up to 2 at once"):
        found = capacity(pairs, 0.9)
    assert found.bound == "below"
    assert found.ties == Ties(share=1.0, largest=2)
    assert found.to_dict()["ties"] == {"share": 1.0, "largest": 2}


def test_few_ties_are_counted_and_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = capacity([0.0, 0.0, *map(float, range(1, 99))], 0.9)
    assert found.ties == Ties(share=0.02, largest=2)


def test_ties_are_within_one_trace() -> None:
    assert ties_of([trace([0.0, 1.0]), trace([0.0, 1.0])]) == Ties(share=0.0, largest=1)
