"""Expressions in the reference."""

from __future__ import annotations

import math

import pytest

from differential.wire import const, field, op
from paceline.testing.reference.policy_sim.expression import apply, over, timely


@pytest.mark.parametrize(
    ("name", "args", "value"),
    [
        ("floordiv", [-7.0, 2.0], -4.0),
        ("ilog2", [8.0], 3.0),
        ("ilog2", [7.9], 2.0),
        ("ilog2", [1.0], 0.0),
        ("ilog2", [0.5], 0.0),
        ("if", [0.0, 5.0, 6.0], 6.0),
        ("not", [2.0], 0.0),
        ("and", [1.0, 0.0], 0.0),
        ("or", [1.0, 0.0], 1.0),
        ("div", [1.0, 0.0], math.inf),
        ("neg", [3.0], -3.0),
    ],
)
def test_an_operator_gives_what_its_name_says(name: str, args: list[float], value: float) -> None:
    assert apply(name, args) == value


def test_over_instances() -> None:
    assert [over(how, [1.0, 0.0, 5.0]) for how in ("sum", "mean", "min", "max", "count", "any", "all")] == [
        6.0,
        2.0,
        0.0,
        5.0,
        2.0,
        1.0,
        0.0,
    ]


def test_what_changes_by_itself_is_known() -> None:
    assert timely(op("lt", const(1), op("neg", field("req.waiting_s"))))
    assert not timely(op("lt", const(1), field("req.kv_tokens")))
