"""The time for which instances are switched on: timelines worked out by hand, with steps of a second."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline import Affine, Cluster, Instance, Result, Trace, load_result, replay
from paceline.policy import Policy, Pools, ScalingRules, cluster, fewest_requests, inst, pick, scale

BOTH = pytest.mark.parametrize("leap", [True, False])


def scaled(
    sizes: dict[str, int], arrivals: list[tuple[float, int]], *, leap: bool, until: float | None = None
) -> Result:
    """Replay requests of these arrivals and output tokens; a size is set every 4 s, and a start takes 3 s."""
    trace = Trace.from_columns(
        arrival=[at for at, _ in arrivals],
        prompt_tokens=[1] * len(arrivals),
        output_tokens=[tokens for _, tokens in arrivals],
    )
    requests = cluster.sum(inst.requests, within="serving")
    size = scale(
        requests, pool="serving", off="off", down=ScalingRules(window_s=8.0), stop=pick(max=inst.index)
    )
    policy = Policy(
        name="scaled",
        pools=Pools(
            **sizes,
            leaving={"off→serving": 3.0, "serving→off": inst.requests == 0},
            switched_off="off",
        ),
        on_arrival=fewest_requests(within=["serving", "off→serving"]),
        every={4.0: [size]},
    )
    instance = Instance(cost=Affine(step_s=1.0), num_blocks=100)
    return replay(
        trace, Cluster(sum(sizes.values()) * [instance]), policy, leap=leap, sample=5.0, until=until
    )


@BOTH
def test_the_time_to_start_counts(leap: bool) -> None:
    """Two requests run until 6 s, so instance 1 starts at 4 s, serves from 7 s, and stops at 12 s.

    At 8 s none was wanted, and two at 4 s; at 12 s that is 8 s ago. The last request runs from 14 s to 16 s.
    """
    result = scaled({"serving": 1, "off": 1}, [(0.0, 6), (0.0, 6), (14.0, 2)], leap=leap)
    assert result.instances["on_s"].to_list() == [16.0, 8.0]
    assert result.totals().on_s == 24.0
    second = result.timeline.filter(instance=1)
    # From 4 s to 5 s, the next five seconds, from 10 s to 12 s, and not at all; the replay ends at 16 s.
    assert second["on_s"].to_list() == [1.0, 5.0, 2.0, 0.0]
    assert result.timeline.filter(instance=0)["on_s"].to_list() == [5.0, 5.0, 5.0, 1.0]


@BOTH
def test_the_time_to_finish_requests_counts(leap: bool) -> None:
    """Each of two instances has a request; that of instance 1 runs until 15 s, that of instance 0 until 2 s.

    At 4 s one request runs, and nothing was wanted before, so instance 1 is told to stop.
    """
    result = scaled({"serving": 2, "off": 0}, [(0.0, 2), (0.0, 15), (17.0, 1)], leap=leap)
    stopped = result.flips.filter(instance=1).select("time_s", "to").rows()
    assert stopped == [(4.0, "serving→off"), (15.0, "off")]
    assert result.instances["on_s"].to_list() == [18.0, 15.0]
    assert result.timeline.filter(instance=1)["on_s"].to_list() == [5.0, 5.0, 5.0, 0.0]


def test_a_replay_that_is_cut_short_counts_until_the_cut() -> None:
    result = scaled({"serving": 1, "off": 1}, [(0.0, 60), (0.0, 60)], leap=True, until=9.0)
    assert result.instances["on_s"].to_list() == [9.0, 5.0]


def test_it_is_saved(tmp_path: Path) -> None:
    result = scaled({"serving": 1, "off": 1}, [(0.0, 6), (0.0, 6), (14.0, 2)], leap=True)
    again = load_result(result.save(tmp_path / "result"))
    assert again.totals().on_s == 24.0
    assert again.timeline.equals(result.timeline)


def test_without_pools_every_instance_is_on() -> None:
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[1], output_tokens=[3])
    instance = Instance(cost=Affine(step_s=1.0), num_blocks=100)
    result = replay(trace, Cluster(2 * [instance]), sample=2.0)
    assert result.totals().on_s == 6.0
    assert result.timeline["on_s"].to_list() == [2.0, 2.0, 1.0, 1.0]
