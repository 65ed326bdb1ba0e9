"""The size that Dynamo's planner wants for the traffic of an interval. Steps take a second."""

from __future__ import annotations

from typing import Any

import pytest

from paceline import policies
from paceline.errors import PolicyError
from unit.policies.scenario import Shape, run

NO_TIME = 1e-9
LATE = (100.0, 1, 1)
"""A request until which the planner goes on."""


def changes(requests: list[Shape], *, seqs: int = 100, **parameters: Any) -> list[tuple[float, str]]:
    """Decide every 10 s. Instances run up to `seqs` requests at once."""
    scheduler = policies.vllm(max_num_seqs=seqs, max_num_batched_tokens=1000).scheduler
    given = {"period_s": 10.0, "start_s": 1.0, "scheduler": scheduler, "ttft_s": 1e6, "itl_s": 1e6}
    flips = run(policies.dynamo_planner(**{**given, **parameters}), requests, blocks=1000).flips
    return flips.filter(cause="every").select("time_s", "to").rows()


def test_the_rate_of_an_instance_is_its_most_requests_over_the_time_of_an_answer() -> None:
    """Four answers of 5 tokens in 10 s. Two at once, at 2 s a step, are 0.2 a second: 0.4 need two instances.

    In the second interval one request arrives and ends, for which one instance suffices.
    """
    requests = [(0.0, 1, 5), (0.0, 1, 5), (5.0, 1, 5), (5.0, 1, 5), (10.5, 1, 5), (30.5, 1, 5)]
    found = changes(requests, seqs=2, step_s=(2.0, NO_TIME, NO_TIME))
    assert found[:2] == [(10.0, "off→serving"), (20.0, "off")]


@pytest.mark.parametrize(
    ("objective", "grows"),
    [
        ({"ttft_s": 1.5}, True),  # 7 decodes: 1 s + 0.01 * (20 + 4 * 7); at 8 the first token is 1.52 s away
        ({"ttft_s": 2.0}, False),  # 20 decodes, which is 2.22 answers a second of 1.2
        ({"itl_s": 1.3}, True),  # 7 decodes: 1 s + 0.01 * 4 * 7 = 1.28 s, and 1.32 s with 8
        ({"itl_s": 1.8}, False),  # 20 decodes
    ],
)
def test_the_objectives_bound_the_requests_at_once(objective: dict[str, float], grows: bool) -> None:
    """Twelve prompts of 20 tokens, with answers of 5, in 10 s; a step takes 1 s and 10 ms a prompt token.

    For each token of an answer 20 / 5 prompt tokens are computed. Seven requests at once take 1.28 s a step:
    7 / (5 * 1.28) = 1.09 answers a second, of 1.2. Twenty take 1.8 s: 2.22.
    """
    requests = [*[(0.0, 20, 5)] * 12, LATE]
    found = changes(requests, step_s=(1.0, 0.01, NO_TIME), **objective)
    assert found[:1] == ([(10.0, "off→serving")] if grows else [])


def test_a_front_end_counts_the_requests_that_finish_and_a_router_those_that_arrive() -> None:
    """Eight requests of 5 steps arrive at once and run one at a time: two of them end in 10 s.

    At 0.9 s a step an instance answers 1 / 4.5 a second, which is above the 0.2 that end, and a quarter of
    the 0.8 that arrive.
    """
    requests = [(0.0, 1, 5)] * 8
    given = {"seqs": 1, "step_s": (0.9, NO_TIME, NO_TIME)}
    assert changes(requests, metrics="router", **given)[:1] == [(10.0, "off→serving")]
    assert changes(requests, metrics="frontend", **given) == []


def test_the_kv_that_fits_bounds_the_requests_at_once() -> None:
    """Contexts are 398 + 4 / 2 tokens: 10 fit into 4,000, which is 10 / (4 * 5 s) answers a second of 0.6."""
    requests = [*[(0.0, 398, 4)] * 6, LATE]
    assert changes(requests, step_s=(5.0, NO_TIME, NO_TIME))[:1] == [(10.0, "off→serving")]
    assert changes(requests, step_s=(4.0, NO_TIME, NO_TIME))[:1] == []


def test_an_interval_without_arrivals_or_ends_changes_nothing() -> None:
    """A request of 25 steps arrives in the first interval and ends in the third."""
    requests = [(0.0, 1, 25), (42.0, 1, 1), LATE]
    assert changes(requests, serving=2, off=0, step_s=(1.0, NO_TIME, NO_TIME)) == [(50.0, "off")]


@pytest.mark.parametrize("wrong", [{"itl_s": 0.0}, {"ttft_s": -1.0}, {"step_s": (1.0, 0.0, 1.0)}])
def test_times_are_above_zero(wrong: dict[str, Any]) -> None:
    with pytest.raises(PolicyError, match=r"of dynamo_planner\(\) must be above 0"):
        policies.dynamo_planner(**{"step_s": (1.0, 1.0, 1.0), **wrong})
