"""The Horizontal Pod Autoscaler: its own examples of sizes, windows and limits. Steps take a second."""

from __future__ import annotations

from typing import Any

import pytest

from paceline import policies
from paceline.errors import PolicyError
from unit.policies.scenario import run


def sizes(requests: list[tuple[float, int, int]], **parameters: Any) -> list[tuple[float, int]]:
    """Return the moments at which the size was set to another, and the sizes."""
    policy = policies.hpa(metric="requests", target=2, start_s=5.0, **parameters)
    flips = run(policy, requests, blocks=1000).flips.filter(cause="every")
    size, found = parameters["serving"], {}
    for at, to in flips.select("time_s", "to").rows():
        size += 1 if to == "off→serving" else -1
        found[at] = size
    return list(found.items())


def test_it_grows_at_once_and_shrinks_after_five_minutes() -> None:
    """Ten requests run until 40 s: 10 / 2 = 5 are wanted at 15 s, and at 30 s the mean is the target.

    From 45 s on none is wanted; at 330 s the five of 30 s are 300 s ago.
    """
    requests = [(0.0, 1, 40)] * 10 + [(335.0, 1, 1)]
    assert sizes(requests, serving=1, off=9) == [(15.0, 5), (330.0, 1)]


def test_it_grows_by_four_or_doubles_in_a_period() -> None:
    """Fifty are wanted: 1 + 4 at 15 s, 2 × 5 at 30 s, 2 × 10 at 45 s, and those that there are at 60 s."""
    requests = [(0.0, 1, 70)] * 100
    assert sizes(requests, serving=1, off=29) == [(15.0, 5), (30.0, 10), (45.0, 20), (60.0, 30)]
    assert sizes(requests, serving=1, off=29, most=7) == [(15.0, 5), (30.0, 7)]


@pytest.mark.parametrize(("requests", "size"), [(9, None), (10, None), (11, None), (12, 6), (13, 7)])
def test_a_tenth_more_or_less_than_the_target_changes_nothing(requests: int, size: int | None) -> None:
    """Five instances of a target of 2 are for ten requests, and 11 / 10 is within a tenth of 1."""
    found = sizes([(0.0, 1, 20)] * requests, serving=5, off=5)
    assert found == ([] if size is None else [(15.0, size)])


def test_instances_that_start_are_among_those_that_share_the_metric() -> None:
    """Twelve requests want six. A start takes two periods, in which the six are not wanted again."""
    policy = policies.hpa(metric="requests", target=2, serving=4, off=8, start_s=30.0)
    flips = run(policy, [(0.0, 1, 50)] * 12, blocks=1000).flips
    assert flips.filter(to="off→serving")["time_s"].to_list() == [15.0, 15.0]


def test_the_metric_is_the_one_that_is_chosen() -> None:
    """One of two requests waits; the other has 8 tokens and up to 4 of output in 3 of 6 blocks of 4."""
    scheduler = policies.vllm(max_num_seqs=1).scheduler
    shapes = [(0.0, 8, 4), (0.0, 8, 4)]
    wanted = {("waiting", 0.5): 2, ("waiting", 1.0): None, ("kv_usage", 0.25): 2, ("kv_usage", 0.5): None}
    for (metric, target), size in wanted.items():
        policy = policies.hpa(
            metric=metric,  # type: ignore[arg-type]
            target=target,
            period_s=2.0,
            start_s=0.5,
            scheduler=scheduler,
        )
        started = run(policy, shapes, blocks=6).flips.filter(time_s=2.0, to="off→serving")
        assert started.height == (0 if size is None else size - 1), (metric, target)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"target": 0.0}, r"target of hpa\(\) must be above 0 and finite, was 0.0"),
        ({"tolerance": -0.1}, r"tolerance of hpa\(\) must be 0 or more, was -0.1"),
        ({"metric": "cpu"}, "metric"),
    ],
)
def test_parameters_without_a_meaning_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        policies.hpa(**parameters)
