"""INV-4: blocks are conserved."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from differential.engine import decisions, engine, rows_of_engine
from differential.strategies import Case, cases


@given(case=cases(), leap=st.booleans())
def test_what_the_requests_hold_and_what_is_free_is_all_there_is(case: Case, leap: bool) -> None:
    outcome = engine(case, leap=leap, record=True)
    rows = rows_of_engine(outcome)
    usage = json.loads(outcome.stats)["instances"]
    for index, (config, _) in enumerate(case.instances):
        capacity = config.num_blocks - 1
        tokens: dict[int, int] = {}
        most = 0
        for start, scheduled, preempted, free in decisions(case, outcome, index):
            done = [request for request in tokens if (rows[request].finish or start + 1) <= start]
            for request in [*done, *preempted]:
                tokens.pop(request, None)
            tokens |= {request: before + now for request, now, before in scheduled}
            held = sum(-(-count // config.block_size) for count in tokens.values())
            assert held + free == capacity
            most = max(most, held)
        assert usage[index]["blocks"] == capacity
        assert most <= usage[index]["peak_blocks"] <= capacity


@given(case=cases("vllm-cached"), leap=st.booleans())
def test_shared_blocks_count_once_and_no_less(case: Case, leap: bool) -> None:
    outcome = engine(case, leap=leap, record=True)
    rows = rows_of_engine(outcome)
    usage = json.loads(outcome.stats)["instances"]
    for index, (config, _) in enumerate(case.instances):
        capacity = config.num_blocks - 1
        tokens: dict[int, int] = {}
        for start, scheduled, preempted, free in decisions(case, outcome, index):
            done = [request for request in tokens if (rows[request].finish or start + 1) <= start]
            for request in [*done, *preempted]:
                tokens.pop(request, None)
            tokens |= {request: before + now for request, now, before in scheduled}
            blocks = [-(-count // config.block_size) for count in tokens.values()]
            # A cached block that no request holds counts as free.
            assert max(blocks, default=0) <= capacity - free <= min(capacity, sum(blocks))
            if usage[index]["prefix_hits"] == 0:
                assert capacity - free == sum(blocks)
