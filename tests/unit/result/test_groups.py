"""Results by tenant, priority and any other column of the trace; objectives by group and by request."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paceline
from paceline import SLO, Affine, Cluster, Instance, Result, Trace, load_result, replay
from paceline.errors import ResultError
from paceline.result.columns import COLUMNS
from paceline.trace.schema import _TAKEN
from paceline.trace.schema import COLUMNS as OF_TRACES

CLUSTER = Cluster([Instance(cost=Affine(step_s=0.5), num_blocks=99)])


@pytest.fixture(scope="module")
def result() -> Result:
    """Four requests that start together: each has its first token at 0.5 s, and one at each step after it."""
    trace = Trace.from_columns(
        arrival=[0.0] * 4,
        prompt_tokens=[8] * 4,
        output_tokens=[2, 4, 4, 6],
        tenant=["a", "b", "a", None],
        priority=[1, 0, 1, 0],
        region=["eu", "us", "us", "us"],
        patience=[1.0, None, 1.5, 3.0],
    )
    return replay(trace, CLUSTER)


def test_requests_have_the_columns_of_the_trace(result: Result) -> None:
    assert result.requests.columns == [*COLUMNS, "priority", "tenant", "region", "patience"]
    assert result.requests["tenant"].to_list() == ["a", "b", "a", None]
    assert result.column("region").to_list() == ["eu", "us", "us", "us"]


def test_no_column_of_a_trace_can_have_the_name_of_a_results_own() -> None:
    assert set(COLUMNS) - set(OF_TRACES) <= _TAKEN


def test_a_summary_by_tenant_has_a_row_for_each_and_each_latency(result: Result) -> None:
    by = result.summary(by="tenant").filter(pl.col("metric") == "e2e")
    assert by.select("tenant", "p50", "mean", "max", "count").rows() == [
        ("a", 1.5, 1.5, 2.0, 2),
        ("b", 2.0, 2.0, 2.0, 1),
        (None, 3.0, 3.0, 3.0, 1),
    ]
    assert "itl" not in result.summary(by="tenant")["metric"].to_list()
    pairs = result.summary(by=["priority", "region"]).filter(pl.col("metric") == "ttft")
    assert pairs.select("priority", "region", "count").rows() == [(0, "us", 2), (1, "eu", 1), (1, "us", 1)]


def test_attainment_by_group(result: Result) -> None:
    assert result.attainment(SLO(e2e=1.5)) == 0.25
    assert result.attainment(SLO(e2e=2.0), by="tenant").rows() == [
        ("a", 2, 2, 1.0),
        ("b", 1, 1, 1.0),
        (None, 1, 0, 0.0),
    ]
    by_group = {"a": SLO(e2e=1.0), "b": SLO(e2e=2.0), None: SLO(e2e=9.0)}
    assert result.attainment(by_group, by="tenant")["attainment"].to_list() == [0.5, 1.0, 1.0]


def test_a_column_of_deadlines_bounds_each_request_and_a_missing_one_none(result: Result) -> None:
    # They end after 1, 2, 2 and 3 s; the second has no deadline.
    assert result.met(deadlines={"e2e": "patience"}).to_list() == [True, True, False, True]
    assert result.attainment(deadlines={"e2e": "patience"}) == 0.75
    assert result.met(SLO(e2e=2.0), deadlines={"e2e": "patience"}).to_list() == [True, True, False, False]
    # Three of four in the 3 s of the replay.
    assert result.goodput(deadlines={"e2e": "patience"}) == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda it: it.summary(by="tenent"), "by must name columns of requests, was 'tenent'.*tenant"),
        (lambda it: it.summary(by=[]), "by must name at least one column"),
        (lambda it: it.met(), "needs bounds"),
        (lambda it: it.met(deadlines={"ttfb": "patience"}), "deadlines must bound ttft, tpot, e2e, itl, was"),
        (lambda it: it.met(deadlines={"e2e": "region"}), "column 'region' must hold seconds, was String"),
        (lambda it: it.met(deadlines={"e2e": "patient"}), "must name columns of requests, was 'patient'"),
        (lambda it: it.attainment({"a": SLO(e2e=1.0)}, by="tenant"), r"lacked \['b', None\]"),
        (lambda it: it.attainment({"a": SLO(e2e=1.0)}), "slo by group needs by"),
    ],
)
def test_what_cannot_be_grouped_is_said(result: Result, call: Any, message: str) -> None:
    with pytest.raises(ResultError, match=message):
        call(result)


def test_columns_survive_saving_pickling_and_arrow(result: Result, tmp_path: Path) -> None:
    saved = result.save(tmp_path / "r")
    for again in (load_result(saved), load_result(saved, lazy=True), pickle.loads(pickle.dumps(result))):
        assert again.requests.equals(result.requests)
        assert again.summary(by="tenant").equals(result.summary(by="tenant"))
    lazily = load_result(saved, lazy=True)
    assert lazily.column("region").to_list() == ["eu", "us", "us", "us"]
    assert pickle.loads(pickle.dumps(lazily)).requests.equals(result.requests)


VALUES = st.one_of(
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3),
    st.lists(st.none() | st.text(max_size=5), min_size=3, max_size=3),
    st.lists(st.none() | st.booleans(), min_size=3, max_size=3),
    st.lists(st.none() | st.floats(allow_nan=False), min_size=3, max_size=3),
    st.lists(st.none() | st.datetimes(), min_size=3, max_size=3),
    st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=3, max_size=3),
)


@settings(max_examples=25, deadline=None)
@given(values=VALUES)
def test_any_column_is_kept_exactly(values: list[Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    column = pl.Series("mine", values)
    trace = Trace.from_columns(
        arrival=[0.0, 1.0, 2.0], prompt_tokens=[1] * 3, output_tokens=[1] * 3, mine=column
    )
    result = replay(trace, CLUSTER)
    assert result.requests["mine"].equals(column)
    folder = tmp_path_factory.mktemp("kept")
    assert load_result(result.save(folder / "r")).requests.equals(result.requests)
    file = io.BytesIO()
    result.requests.write_ipc(file)
    assert pl.read_ipc(io.BytesIO(file.getvalue())).equals(result.requests)
    trace.write(folder / "t.parquet")
    assert paceline.read_trace(folder / "t.parquet") == trace
