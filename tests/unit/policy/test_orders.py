"""The integers that the engine sorts requests by, under orders by priority."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from paceline.errors import PolicyError
from paceline.policy.orders import OF_COLUMNS, OF_PRIORITIES, QueueOrder, priorities

GIVEN = np.array([3, -2, 3, 0, 2**30], dtype=np.int64)
OUTPUT = np.array([5, 9, 7, 2**31 - 1, 1], dtype=np.uint32)


@pytest.mark.parametrize(
    ("order", "rows"),
    [
        ("priority", [1, 3, 0, 2, 4]),
        ("highest_priority", [4, 0, 2, 3, 1]),
        ("priority_then_longest_output", [1, 3, 2, 0, 4]),
        ("highest_priority_then_longest_output", [4, 2, 0, 3, 1]),
    ],
)
def test_requests_are_sorted_by_priority_and_then_by_output_or_row(order: str, rows: list[int]) -> None:
    assert np.argsort(priorities(order, GIVEN, OUTPUT), kind="stable").tolist() == rows


def test_the_least_and_the_greatest_priority_are_sorted() -> None:
    most = np.array([2**63 - 1, 0, -(2**63)], dtype=np.int64)
    assert np.argsort(priorities("highest_priority", most, OUTPUT[:3])).tolist() == [0, 1, 2]


def test_priorities_out_of_range_are_refused_where_outputs_decide_among_them() -> None:
    given = np.array([0, -(2**30) - 1], dtype=np.int64)
    with pytest.raises(
        PolicyError, match=r"priority must be -1073741824 to 1073741824 under .*, was -1073741825"
    ):
        priorities("priority_then_longest_output", given, OUTPUT[:2])


def test_every_order_by_a_column_has_a_name() -> None:
    assert set(get_args(QueueOrder)) - OF_COLUMNS == {"arrival", "longest_prefix", "shared_prefix"}
    assert set(OF_PRIORITIES) < OF_COLUMNS
