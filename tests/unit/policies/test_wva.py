"""The saturation rule of llm-d's Workload Variant Autoscaler, at its thresholds. Steps take a second."""

from __future__ import annotations

from typing import Any

import pytest

from paceline import policies
from unit.policies.scenario import Shape, run

ONE_AT_A_TIME = policies.vllm(max_num_seqs=1).scheduler
Change = tuple[float, str]


def changes(requests: list[Shape], **parameters: Any) -> list[Change]:
    """Decide every 10 s by the peaks of 10 s. An instance runs one request at a time."""
    given = {"period_s": 10.0, "peak_s": (10.0, 1.0), "start_s": 15.0, "scheduler": ONE_AT_A_TIME}
    flips = run(policies.wva(**{**given, **parameters}), requests).flips
    return flips.filter(cause="every").select("time_s", "to").rows()


@pytest.mark.parametrize(("requests", "grows"), [(3, False), (4, True), (6, True), (9, True)])
def test_an_instance_is_added_if_less_than_three_places_in_the_queue_are_left(
    requests: int, grows: bool
) -> None:
    """Of the requests one runs. Two that wait leave 3 of 5, three leave 2, five and more leave nothing."""
    found = changes([(0.0, 1, 12)] * requests, off=2)
    assert found[:1] == ([(10.0, "off→serving")] if grows else [])


def test_an_instance_is_added_if_less_than_a_tenth_of_the_cache_is_left() -> None:
    """A prompt of 264 tokens has 264 + 19 after 20 s, in 71 of 100 blocks of 4: 0.09 of 0.8 are left.

    After 10 s it is in 69 blocks.
    """
    assert changes([(0.0, 264, 29)])[:1] == [(20.0, "off→serving")]


def test_the_peak_of_the_window_counts() -> None:
    """Four requests of 2 s come at once: three wait for 2 s, and none from 6 s on."""
    requests: list[Shape] = [(0.0, 1, 2)] * 4 + [(9.0, 1, 5)]
    assert changes(requests) == [(10.0, "off→serving")]
    assert changes(requests, peak_s=(8.0, 1.0)) == []


def test_nothing_is_decided_while_an_instance_starts_and_saturated_ones_do_not_count() -> None:
    """Six of seven requests wait until 60 s. One instance starts from 10 s to 25 s, and has no requests.

    At 20 s it still starts. From 30 s on the average is its own: 5 of 5 places. After 240 s two wait,
    which one instance can have, and at 250 s the peak of three is 10 s ago.
    """
    assert changes([(0.0, 1, 60)] * 7, off=3) == [(10.0, "off→serving"), (250.0, "off")]


@pytest.mark.parametrize(("requests", "shrinks"), [(4, True), (5, False)])
def test_an_instance_is_removed_if_the_others_keep_the_same_to_spare(requests: int, shrinks: bool) -> None:
    """Of four requests on two instances two wait, which leave 3 of 5 places on one; three would leave 2."""
    found = changes([(0.0, 1, 12)] * requests, serving=2, off=0)
    assert [to for at, to in found if at == 10.0] == (["serving→off"] if shrinks else [])


def test_the_last_unsaturated_instance_stays() -> None:
    assert changes([(0.0, 1, 25)], serving=1, off=0) == []
