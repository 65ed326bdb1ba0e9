"""INV-2: tokens are conserved."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from differential.engine import engine, rows_of_engine
from differential.strategies import Case, cases


@given(case=cases(), until=st.none() | st.integers(0, 1500))
def test_a_request_has_all_its_tokens_exactly_when_it_is_finished(case: Case, until: int | None) -> None:
    rows = rows_of_engine(engine(replace(case, until=until), leap=True))
    for request, row in zip(case.requests, rows, strict=True):
        assert (row.generated == request.output_tokens) == (row.status == "finished")
        assert 0 <= row.generated <= request.output_tokens
        assert (row.generated > 0) == (row.first_token is not None)
        assert row.scheduled is not None or row.generated == 0


@given(case=cases(), until=st.none() | st.integers(0, 1500), leap=st.booleans())
def test_the_gaps_and_the_first_tokens_are_all_the_tokens(case: Case, until: int | None, leap: bool) -> None:
    outcome = engine(replace(case, until=until), leap=leap)
    rows = rows_of_engine(outcome)
    first_tokens = sum(row.first_token is not None for row in rows)
    assert sum(row.generated for row in rows) == outcome.itl.count + first_tokens


@given(case=cases())
def test_the_gaps_of_all_requests_add_up_to_the_time_they_decoded(case: Case) -> None:
    outcome = engine(case, leap=True)
    decoding = [
        row.finish - row.first_token
        for row in rows_of_engine(outcome)
        if row.finish is not None and row.first_token is not None
    ]
    assert outcome.itl.sum_ticks == sum(decoding)
