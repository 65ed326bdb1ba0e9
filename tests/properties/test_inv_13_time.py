"""INV-13: the time of requests is the time of instances."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from differential.engine import engine, rows_of_engine
from differential.strategies import KINDS, Case, Kind, cases


@given(data=st.data(), kind=st.sampled_from(KINDS), leap=st.booleans())
def test_running_and_waiting_add_up_to_the_stay_of_every_request(
    data: st.DataObject, kind: Kind, leap: bool
) -> None:
    case: Case = data.draw(cases(kind))
    outcome = engine(case, leap=leap)
    stays, queues = [0] * len(case.instances), [0] * len(case.instances)
    for request, row in zip(case.requests, rows_of_engine(outcome), strict=True):
        if row.instance is None or row.finish is None or row.scheduled is None:
            assert (row.status, row.instance) == ("rejected", None)
            continue
        stays[row.instance] += row.finish - request.arrival
        queues[row.instance] += row.scheduled - request.arrival
    usage = json.loads(outcome.stats)["instances"]
    assert [of["running_ticks"] + of["waiting_ticks"] for of in usage] == stays
    for of, queued in zip(usage, queues, strict=True):
        assert of["waiting_ticks"] >= queued
        assert of["preemptions"] > 0 or of["waiting_ticks"] == queued
