"""INV-10: no instance idles while it has a request."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from differential.engine import engine, rows_of_engine
from differential.strategies import Case, cases


def measure(intervals: list[tuple[int, int]]) -> int:
    """Length of the union of intervals."""
    total, reached = 0, 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


@given(case=cases(), leap=st.booleans())
def test_an_instance_is_busy_exactly_while_it_has_a_request(case: Case, leap: bool) -> None:
    outcome = engine(case, leap=leap)
    present: list[list[tuple[int, int]]] = [[] for _ in case.instances]
    for request, row in zip(case.requests, rows_of_engine(outcome), strict=True):
        if row.instance is not None and row.finish is not None:
            present[row.instance].append((request.arrival, row.finish))
    busy = [instance["busy_ticks"] for instance in json.loads(outcome.stats)["instances"]]
    assert busy == [measure(intervals) for intervals in present]
