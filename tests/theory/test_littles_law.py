"""Laws that hold on every sample path: Little's law, and that no instance idles while it has requests."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from differential.engine import NOWHERE, engine
from differential.strategies import Case, cases
from paceline import _core


def stays(case: Case, outcome: _core.Outcome, instance: int) -> list[tuple[int, int]]:
    """Return when each request arrived at an instance and when it finished, or when the replay ended."""
    end: int = json.loads(outcome.stats)["end_ticks"]
    return [
        (request.arrival, min(finish, end))
        for request, finish, at in zip(
            case.requests,
            outcome.columns["finish"].tolist(),
            outcome.columns["instance"].tolist(),
            strict=True,
        )
        if at != NOWHERE and at == instance
    ]


def covered(intervals: list[tuple[int, int]]) -> int:
    """Return the length of the union of intervals."""
    total, reached = 0, 0
    for start, stop in sorted(intervals):
        total += max(stop - max(start, reached), 0)
        reached = max(reached, stop)
    return total


@given(case=cases(), until=st.none() | st.integers(0, 1500), leap=st.booleans())
def test_requests_in_the_system_integrate_to_the_time_they_spend_there(
    case: Case, until: int | None, leap: bool
) -> None:
    case = replace(case, until=until)
    outcome = engine(case, leap=leap)
    for index, instance in enumerate(json.loads(outcome.stats)["instances"]):
        spent = sum(stop - start for start, stop in stays(case, outcome, index))
        assert instance["running_ticks"] + instance["waiting_ticks"] == spent


@given(case=cases(), until=st.none() | st.integers(0, 1500), leap=st.booleans())
def test_an_instance_is_busy_exactly_while_it_has_requests(case: Case, until: int | None, leap: bool) -> None:
    case = replace(case, until=until)
    outcome = engine(case, leap=leap)
    for index, instance in enumerate(json.loads(outcome.stats)["instances"]):
        assert instance["busy_ticks"] == covered(stays(case, outcome, index))


@given(case=cases(), leap=st.booleans())
def test_without_preemption_the_queue_integrates_to_the_waits(case: Case, leap: bool) -> None:
    # All requests fit at once, so that none is preempted.
    roomy = [(replace(config, num_blocks=5000), cost) for config, cost in case.instances]
    case = replace(case, instances=roomy)
    outcome = engine(case, leap=leap)
    assert not outcome.columns["preemptions"].any()
    waits = [
        scheduled - request.arrival
        for request, scheduled, at in zip(
            case.requests,
            outcome.columns["scheduled"].tolist(),
            outcome.columns["instance"].tolist(),
            strict=True,
        )
        if at != NOWHERE
    ]
    instances = json.loads(outcome.stats)["instances"]
    assert sum(instance["waiting_ticks"] for instance in instances) == sum(waits)
