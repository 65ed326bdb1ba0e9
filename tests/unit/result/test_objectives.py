"""Attainment is joint, over all that arrived; goodput is over the whole duration."""

from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.objectives import SLO
from unit.result.fakes import NOT_ARRIVED, REJECTED, RUNNING, WAITING, Request, result_of, served

GOOD = served(0, 0, 1.0, 2.0, output=11)  # TTFT 1.0, TPOT 0.1, E2E 2.0
LATE = served(0, 0, 3.0, 4.0, output=11)  # TTFT 3.0, TPOT 0.1
SLOW = served(0, 0, 1.0, 6.0, output=11)  # TTFT 1.0, TPOT 0.5
CHAT = SLO(ttft=2.0, tpot=0.150)


def test_every_bound_must_be_met_by_the_same_request() -> None:
    result = result_of([GOOD, LATE, SLOW])
    assert result.attainment(SLO(ttft=2.0)) == pytest.approx(2 / 3)
    assert result.attainment(SLO(tpot=0.150)) == pytest.approx(2 / 3)
    assert result.attainment(CHAT) == pytest.approx(1 / 3)
    assert result.met(CHAT).to_list() == [True, False, False]


def test_a_bound_met_exactly_is_met() -> None:
    assert result_of([GOOD]).attainment(SLO(ttft=1.0, tpot=0.1, e2e=2.0)) == 1.0


def test_rejected_and_unfinished_requests_missed_and_those_to_come_do_not_count() -> None:
    running = Request(scheduled=0, first_token=0.5, output=9, generated=2, instance=0, status=RUNNING)
    requests = [GOOD, running, Request(status=WAITING), Request(status=REJECTED, reason=1)]
    later = Request(arrival=50, status=NOT_ARRIVED)
    assert result_of([*requests, later, later]).attainment(CHAT) == 1 / 4


def test_a_single_token_meets_any_bound_between_tokens() -> None:
    single = served(0, 0, 1.0, 1.0, output=1)
    assert result_of([single]).attainment(SLO(tpot=1e-6, itl=1e-6)) == 1.0
    assert result_of([single]).attainment(SLO(ttft=0.5, tpot=1e-6)) == 0.0


def test_itl_bounds_the_longest_gap() -> None:
    stalled = served(0, 0, 1.0, 2.0, output=11, max_itl=0.6)
    assert result_of([GOOD, stalled]).met(SLO(itl=0.5)).to_list() == [True, False]


def test_goodput_counts_over_the_drain_too() -> None:
    # One of three meets it, and the last completion is at 6 s.
    assert result_of([GOOD, LATE, SLOW]).goodput(CHAT) == pytest.approx(1 / 6)


def test_without_arrivals_nothing_is_attained() -> None:
    result = result_of([Request(arrival=5, status=NOT_ARRIVED)], end=1.0)
    assert math.isnan(result.attainment(CHAT))
    assert result.goodput(CHAT) == 0.0


@given(
    st.lists(
        st.tuples(st.floats(0, 5), st.floats(0, 5), st.integers(1, 20), st.sampled_from([0, 1, 2, 4])),
        min_size=1,
        max_size=30,
    ),
    st.floats(0.1, 5),
    st.floats(0.01, 2),
)
def test_counted_row_by_row_it_is_the_same(
    drawn: list[tuple[float, float, int, int]], ttft: float, tpot: float
) -> None:
    requests = [
        served(0, 0, first, first + decode, output=output)
        if status == 0
        else Request(status=status, reason=status == 4)
        for first, decode, output, status in drawn
    ]
    result = result_of(requests)
    rows = result.requests.select("status", "ttft", "tpot", "output_tokens").rows(named=True)
    good = [
        row["status"] == "finished"
        and row["ttft"] <= ttft
        and (row["output_tokens"] == 1 or row["tpot"] <= tpot)
        for row in rows
    ]
    met = result.met(SLO(ttft=ttft, tpot=tpot))
    assert met.dtype == pl.Boolean
    assert met.to_list() == good
    assert result.attainment(SLO(ttft=ttft, tpot=tpot)) == sum(good) / len(rows)
