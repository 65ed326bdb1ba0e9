"""What reports of instances accept, and how the engine reads them."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.errors import PolicyError
from paceline.policy import Reports
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
