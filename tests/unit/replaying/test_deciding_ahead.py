"""Async scheduling, by hand: a step is decided when the one before it starts. A step takes a second."""

from __future__ import annotations

import pytest

import paceline


def moments(
    ahead: bool, arrivals: list[float], output: list[int], blocks: int = 101
) -> list[tuple[float, float]]:
    """Return when each request is first scheduled and when it finishes; prompts have one block."""
    trace = paceline.Trace.from_columns(
        arrival=arrivals, prompt_tokens=[16] * len(arrivals), output_tokens=output
    )
    instance = paceline.Instance(cost=paceline.Affine(step_s=1.0), num_blocks=blocks)
    policy = paceline.policies.vllm(async_scheduling=ahead)
    return (
        paceline.replay(trace, paceline.Cluster([instance]), policy)
        .requests.select("scheduled", "finish")
        .rows()
    )


def test_an_arrival_waits_for_the_step_that_is_decided_already() -> None:
    # It arrives in the step from 2 to 3. The one from 3 to 4 was decided at 2.
    assert moments(False, [0.0, 2.5], [9, 1])[1] == (3.0, 4.0)
    assert moments(True, [0.0, 2.5], [9, 1])[1] == (4.0, 5.0)


def test_a_request_does_not_wait_on_an_idle_instance() -> None:
    assert moments(True, [0.0, 50.0], [2, 2]) == [(0.0, 2.0), (50.0, 52.0)]


@pytest.mark.parametrize(("ahead", "starts"), [(False, 3.0), (True, 3.0)])
def test_an_empty_instance_catches_up_at_once(ahead: bool, starts: float) -> None:
    # Two usable blocks: the second fits only when the first has finished, and then nothing else runs.
    assert moments(ahead, [0.0, 0.5], [3, 1], blocks=3)[1][0] == starts


def test_memory_that_comes_free_counts_a_step_later() -> None:
    # Four usable blocks, two each: the third fits when the first finishes, at 3, while the second still runs.
    arrivals, output = [0.0, 0.0, 0.5], [3, 9, 1]
    assert moments(False, arrivals, output, blocks=5)[2][0] == 3.0
    assert moments(True, arrivals, output, blocks=5)[2][0] == 4.0
