"""Quality of experience in the reference, against areas worked out by hand. A token is read in 10 ticks."""

from __future__ import annotations

import pytest

from paceline.testing.reference.policy_sim import qoe, qoe_answering, read_times
from paceline.testing.reference.policy_sim.pacing import slack


def test_a_stall_in_the_middle_costs_its_area() -> None:
    """Read at 0, 10, 20 and 60: one token is 30 late, of 4 x 70 - 16 x 10 / 2 = 200."""
    times = [0, 1, 2, 60]
    assert read_times(times, 10) == [0, 10, 20, 60]
    assert qoe_answering(times, 10) == pytest.approx(0.85)
    assert qoe(times, 10, expected_first=0) == pytest.approx(0.85)


def test_a_late_first_token_counts_only_against_a_promise() -> None:
    """Read at 50, 60 and 70, promised for 20, 30 and 40: 90 late, of 3 x 60 - 9 x 10 / 2 = 135."""
    times = [50, 55, 60]
    assert qoe(times, 10, expected_first=20) == pytest.approx(1 / 3)
    assert qoe_answering(times, 10) == 1.0


def test_tokens_that_are_always_early_are_perfect() -> None:
    assert qoe([1, 2, 3, 4], 10, expected_first=5) == 1.0
    assert qoe_answering([1, 2, 3, 4], 10) == 1.0


def test_being_early_does_not_make_up_for_being_late() -> None:
    """The first is 15 early, the third read at 60, 20 late: only the 20 count, of 3 x 50 - 45 = 105."""
    assert qoe([5, 6, 60], 10, expected_first=20) == pytest.approx(1 - 20 / 105)


def test_a_stall_that_the_buffer_covers_costs_nothing() -> None:
    assert qoe_answering([0, 1, 2, 30, 31], 10) == 1.0


def test_slack_is_what_is_left_in_the_buffer() -> None:
    assert [slack([0, 1, 2], 10, now) for now in (2, 29, 30, 31)] == [28, 1, 0, -1]
