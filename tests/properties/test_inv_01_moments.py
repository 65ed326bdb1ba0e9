"""INV-1: moments are in order."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from differential.engine import engine, rows_of_engine
from differential.strategies import Case, cases


@given(case=cases(), until=st.none() | st.integers(0, 1500))
def test_arrival_scheduled_first_token_and_finish_come_in_this_order(case: Case, until: int | None) -> None:
    rows = rows_of_engine(engine(replace(case, until=until), leap=True))
    for request, row in zip(case.requests, rows, strict=True):
        moments = [request.arrival, row.scheduled, row.first_token, row.finish]
        reached = [moment for moment in moments if moment is not None]
        assert reached == moments[: len(reached)], "a moment was reached before one that precedes it"
        assert all(earlier <= later for earlier, later in pairwise(reached))
        assert until is None or all(moment <= until for moment in reached[1:])


@given(case=cases())
def test_the_longest_gap_fits_between_the_first_token_and_the_last(case: Case) -> None:
    for request, row in zip(case.requests, rows_of_engine(engine(case, leap=True)), strict=True):
        if row.status != "finished" or request.output_tokens == 1:
            assert row.longest_gap is None or row.status != "finished"
            continue
        assert row.first_token is not None
        assert row.finish is not None
        assert row.longest_gap is not None
        decoding, gaps = row.finish - row.first_token, request.output_tokens - 1
        assert decoding <= row.longest_gap * gaps
        assert row.longest_gap <= decoding
