"""INV-16: answers come before what waits for them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from paceline import Concurrency
from paceline.testing import check
from properties.closed_loads import HOPELESS, closed_loads, replayed, waits_for

Load = tuple[dict[str, list[Any]], Concurrency | None]


@given(load=closed_loads())
def test_a_request_is_sent_after_the_answers_for_which_it_waits_and_only_then(load: Load) -> None:
    columns, limit = load
    result = replayed(columns, limit)
    check(result)
    requests = result.requests
    sent, finish, status = (requests[name].to_list() for name in ("arrival", "finish", "status"))
    for row, waits in enumerate(waits_for(columns)):
        comes = all(status[one] == "finished" for one, _ in waits)
        # Everything is sent that can be: time does not run out.
        assert (status[row] != "not_arrived") == comes
        if not comes:
            continue
        ready = max((finish[one] + after for one, after in waits), default=columns["arrival"][row])
        if waits and columns["not_before"][row] is not None:
            ready = max(ready, columns["not_before"][row])
        assert sent[row] >= ready - 1e-9
        if limit is None:
            assert sent[row] == pytest.approx(ready, abs=1e-9)


@given(load=closed_loads())
def test_turns_that_think_never_overtake_each_other(load: Load) -> None:
    columns, limit = load
    requests = replayed(columns, limit).requests
    sent, finish, status = (requests[name].to_list() for name in ("arrival", "finish", "status"))
    for name in {"a", "b", "c"}.intersection(columns["session"]):
        turns = [row for row, session in enumerate(columns["session"]) if session == name]
        for before, row in pairwise(turns):
            if columns["think_time"][row] is not None and status[row] != "not_arrived":
                assert status[before] == "finished"
                assert sent[row] >= finish[before] + columns["think_time"][row] - 1e-9


@given(load=closed_loads(apart=True), data=st.data())
def test_the_order_of_rows_in_a_file_changes_nothing(load: Load, data: st.DataObject) -> None:
    columns, limit = load
    order = data.draw(st.permutations(range(len(columns["arrival"]))))
    mixed = {name: [values[row] for row in order] for name, values in columns.items()}
    assert replayed(mixed, limit).requests.equals(replayed(columns, limit).requests)


def test_the_loads_reach_what_may_happen() -> None:
    counts: Counter[str] = Counter()

    @settings(max_examples=80, database=None, derandomize=True, phases=[Phase.generate])
    @given(load=closed_loads())
    def count(load: Load) -> None:
        columns, limit = load
        requests = replayed(columns, limit).requests
        free = replayed(columns, None).requests
        status = requests["status"].to_list()
        counts["never sent"] += "not_arrived" in status
        counts["rejected"] += HOPELESS in columns["prompt_tokens"]
        counts["joins"] += any(len(waits) > 1 for waits in waits_for(columns))
        named = "none" if limit is None else limit.of
        counts[named] += not requests["arrival"].equals(free["arrival"])

    count()
    for name in ("never sent", "rejected", "joins", "requests", "sessions"):
        assert counts[name] >= 5, counts
