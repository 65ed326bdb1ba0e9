"""The values of an output reserve."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.errors import PolicyError
from paceline.policies import sglang
from paceline.policy import OutputReserve, Policy


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"share": 1.1}, "0 <= least <= share <= 1, were 1.1 and 0.154"),
        ({"share": 0.1, "least": 0.2}, "0 <= least <= share <= 1, were 0.1 and 0.2"),
        ({"share": float("nan"), "least": 0.0}, "0 <= least <= share <= 1"),
        ({"steps": 0}, "steps of an OutputReserve must be 1 to 1,048,576, was 0"),
        ({"ahead": -1}, "ahead of an OutputReserve must be 0 to"),
        ({"clip": 2**21}, "clip of an OutputReserve must be 1 to"),
    ],
)
def test_a_value_out_of_range_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        OutputReserve(**values)


def test_it_survives_text_with_its_policy() -> None:
    policy = sglang(mixed_chunk=True, schedule_conservativeness=0.25)
    assert Policy.from_toml(policy.to_toml()) == policy
