"""INV-3: every request is accounted for."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from differential.engine import engine, rows_of_engine
from differential.strategies import Case, cases


@given(case=cases())
def test_without_an_end_of_time_every_request_is_finished_or_rejected(case: Case) -> None:
    rows = rows_of_engine(engine(case, leap=True))
    assert len(rows) == len(case.requests)
    assert {row.status for row in rows} <= {"finished", "rejected"}


@given(case=cases(), until=st.integers(0, 1500))
def test_each_status_says_what_happened(case: Case, until: int) -> None:
    rows = rows_of_engine(engine(replace(case, until=until), leap=True))
    for request, row in zip(case.requests, rows, strict=True):
        assert (row.status == "not arrived") == (request.arrival > until)
        assert (row.status == "finished") == (row.finish is not None)
        assert (row.status == "rejected") == (row.reason is not None)
        assert (row.instance is None) == (row.status in {"not arrived", "rejected"})
        assert row.status != "running" or row.scheduled is not None


@given(case=cases(), until=st.none() | st.integers(0, 1500))
def test_the_instances_finished_what_the_requests_say(case: Case, until: int | None) -> None:
    outcome = engine(replace(case, until=until), leap=True)
    finished = Counter(row.instance for row in rows_of_engine(outcome) if row.status == "finished")
    preempted = sum(row.preemptions for row in rows_of_engine(outcome))
    instances = json.loads(outcome.stats)["instances"]
    assert [instance["finished"] for instance in instances] == [finished[i] for i in range(len(instances))]
    assert sum(instance["preemptions"] for instance in instances) == preempted
