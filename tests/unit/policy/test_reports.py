"""What reports of instances accept, and how the engine reads them."""

from __future__ import annotations

from typing import Any

import pytest

import paceline
from paceline.errors import NoProgressError, PolicyError
from paceline.policy import Policy, Reports, first_of, hold, inst, pick, req
from paceline.policy.routers import routers_to_wire


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"every": 0.0}, "every of Reports must be"),
        ({"every": 1.0, "gap": 0.1}, "gap of Reports must be left out without on_change, was 0.1"),
        ({"every": 1.0, "whole_steps": 0.1}, "whole_steps of Reports must be left out without on_change"),
        ({"every": 1.0, "on_change": "after", "unit": 0.0}, "unit of Reports must be"),
        (
            {"every": 1.0, "on_change": "after", "gap": 2.0},
            r"gap of Reports must be at most every, 1\.0, was",
        ),
        ({"every": 1.0, "on_change": "before"}, "on_change"),
    ],
)
def test_settings_that_fit_no_relay_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        Reports(**given)


def test_a_relay_is_written_in_ticks() -> None:
    reports = Reports(every=5.0, on_change="around", gap=0.1, unit=0.001, whole_steps=0.05)
    wire = routers_to_wire(2, reports, None, 7, 1e6)
    assert wire["report_every"] == 5_000_000
    assert wire["relay"] == {"gap": 100_000, "unit": 1000, "before": True, "copies": 50_000}
    assert "relay" not in routers_to_wire(1, Reports(every=5.0), None, 0, 1e6)


def test_a_relay_has_no_gap_and_an_exact_clock_by_default() -> None:
    wire = routers_to_wire(1, Reports(every=1.0, on_change="after"), None, 0, 1e6)
    assert wire["relay"] == {"gap": 0, "unit": 1, "before": False, "copies": None}


@pytest.mark.parametrize("leap", [True, False])
def test_a_report_lets_a_held_request_go_that_has_waited_for_long_enough(leap: bool) -> None:
    old = pick(min=inst.requests, where=req.age > 5.0)
    policy = Policy(name="old", on_arrival=first_of(old, hold()), reports=Reports(every=1.0))
    trace = paceline.Trace.from_columns(arrival=[0.0, 0.5], prompt_tokens=[8, 8], output_tokens=[2, 2])
    cluster = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.1), num_blocks=200)])
    result = paceline.replay(trace, cluster, policy, leap=leap)
    # The routers are asked again at each whole second.
    assert result.requests["held"].to_list() == [6.0, 5.5]


def test_without_reports_a_rule_on_the_time_that_passes_makes_no_progress() -> None:
    old = pick(min=inst.requests, where=req.age > 5.0)
    policy = Policy(name="old", on_arrival=first_of(old, hold()))
    trace = paceline.Trace.from_columns(arrival=[0.0], prompt_tokens=[8], output_tokens=[2])
    cluster = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.1), num_blocks=200)])
    with pytest.raises(NoProgressError, match="because of a report, and a request may give up"):
        paceline.replay(trace, cluster, policy)
