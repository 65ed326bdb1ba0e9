"""One row for each request: seconds from the trace's start, null for what did not happen."""

from __future__ import annotations

import io
import pickle
import runpy
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paceline
from paceline.result import Result
from paceline.result.columns import COLUMNS, SCHEMA, RequestColumns
from paceline.result.declared import ENGINE, named
from unit.result.fakes import (
    NOT_ARRIVED,
    REJECTED,
    RUNNING,
    WAITING,
    Request,
    outcome_of,
    result_of,
    served,
    trace_of,
)


def test_a_finished_request_has_every_latency() -> None:
    counts = {"prompt": 600, "cached": 512, "preemptions": 2, "instance": 3}
    request = served(2.0, 2.5, 4.0, 10.0, output=13, max_itl=0.75, **counts)
    row = result_of([request]).requests.row(0, named=True)
    assert row == {
        **dict.fromkeys(named("part"), 0.0),
        "arrival": 2.0,
        "scheduled": 2.5,
        "first_token": 4.0,
        "reasoning_end": None,
        "answer_started": None,
        "first_answer": None,
        "finish": 10.0,
        "cancelled_at": None,
        "sent_again": 0,
        "wasted_tokens": 0,
        "first_sent": None,
        "queueing": 0.5,
        "ttft": 2.0,
        "ttfat": None,
        "tpot": 0.5,
        "e2e": 8.0,
        "normalized_latency": 8.0 / 13,
        "max_itl": 0.75,
        "executed": 7.5,
        "blocked": 0.5,
        "blocking": None,
        "prediction": 0.0,
        "qoe": None,
        "qoe_answering": None,
        "prompt_tokens": 600,
        "output_tokens": 13,
        "generated_tokens": 13,
        "cached_tokens": 512,
        "loaded_tokens": 0,
        "store_tokens": 0,
        "preemptions": 2,
        "migrations": 0,
        "instance": 3,
        "last_instance": 3,
        "status": "finished",
        "reason": None,
    }


def test_a_single_token_has_no_tpot_and_no_gap() -> None:
    row = result_of([served(0, 0, 1.5, 1.5, output=1)]).requests.row(0, named=True)
    assert (row["tpot"], row["max_itl"]) == (None, None)
    assert (row["ttft"], row["e2e"], row["normalized_latency"]) == (1.5, 1.5, 1.5)


def test_an_unfinished_request_keeps_what_happened() -> None:
    request = Request(
        arrival=1,
        scheduled=2,
        first_token=3,
        output=50,
        generated=9,
        max_itl=0.25,
        instance=1,
        status=RUNNING,
    )
    row = result_of([request]).requests.row(0, named=True)
    assert (row["queueing"], row["ttft"], row["max_itl"], row["generated_tokens"]) == (1, 2, 0.25, 9)
    assert (row["finish"], row["tpot"], row["e2e"], row["normalized_latency"]) == (None,) * 4
    assert row["status"] == "running"


@pytest.mark.parametrize(("status", "name"), [(WAITING, "waiting"), (NOT_ARRIVED, "not_arrived")])
def test_a_request_that_never_ran_has_only_an_arrival(status: int, name: str) -> None:
    row = result_of([Request(arrival=5, status=status)]).requests.row(0, named=True)
    assert (row["arrival"], row["status"]) == (5.0, name)
    absent = ("scheduled", "first_token", "finish", "queueing", "ttft", "tpot", "e2e", "max_itl", "instance")
    assert {row[column] for column in absent} == {None}


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (1, "sequence longer than max_model_len"),
        (2, "KV of the whole sequence exceeds the instance's blocks"),
        (3, "prompt longer than the tokens of a step, which is not cut into chunks"),
    ],
)
def test_a_rejected_request_says_why(reason: int, text: str) -> None:
    row = result_of([Request(status=REJECTED, reason=reason, instance=0)]).requests.row(0, named=True)
    assert (row["status"], row["reason"], row["instance"]) == ("rejected", text, 0)


def test_columns_and_types_are_those_documented_whatever_the_rows() -> None:
    for requests in ([served(0, 0, 1, 2, output=2)], [Request(status=WAITING)]):
        assert dict(result_of(requests).requests.schema) == SCHEMA


def test_every_column_has_one_definition() -> None:
    definitions = result_of([Request()]).definitions
    assert list(definitions) == list(COLUMNS)
    assert all(text.endswith(".") and not text.startswith(" ") for text in definitions.values())


def test_the_engine_gives_the_columns_that_it_declares() -> None:
    assert [one.name for one in ENGINE] == list(outcome_of([Request()]).columns)
    assert {one.kind for one in ENGINE} == {
        *("moment", "gap", "part", "count", "place", "quality", "status", "reason")
    }


def test_the_page_of_columns_is_that_of_the_definitions() -> None:
    docs = Path(__file__).resolve().parents[3] / "docs"
    made = runpy.run_path(str(docs / "columns.py"))["page"]()
    assert (docs / "columns.md").read_text(encoding="utf-8") == made, "run docs/columns.py"


def test_latencies_late_in_a_long_trace_lose_no_precision() -> None:
    # 186 days in, a float of seconds resolves about 2 ns; the difference of ticks is exact to 1 ps.
    late = 16_000_000.0
    outcome = outcome_of([Request(arrival=late, output=2)])
    arrival = np.uint64(round(late * 10**12))
    outcome.columns["scheduled"][:] = arrival
    outcome.columns["first_token"][:] = arrival + np.uint64(123)
    outcome.columns["finish"][:] = arrival + np.uint64(1_123)
    trace = pl.DataFrame(
        {"arrival": [late], "prompt_tokens": [1], "output_tokens": [2]},
        schema_overrides={"prompt_tokens": pl.UInt32, "output_tokens": pl.UInt32},
    )
    columns = RequestColumns.from_outcome(trace, outcome)
    assert columns["ttft"].to_list() == [123e-12]
    assert columns["tpot"].to_list() == [1_000e-12]


@given(st.lists(st.floats(0, 16_000_000), min_size=1, max_size=20))
def test_arrivals_are_rounded_as_the_engine_is_given_them(seconds: list[float]) -> None:
    requests = [Request(arrival=second) for second in sorted(seconds)]
    given_ticks = np.rint(np.array(sorted(seconds)) * 1e12).astype(np.uint64)
    assert result_of(requests).requests["arrival"].to_list() == [int(tick) / 1e12 for tick in given_ticks]


def test_the_engines_arrays_are_not_copied() -> None:
    outcome = outcome_of([served(0, 0, 1, 2, output=2), Request(status=WAITING)])
    trace = pl.DataFrame(
        {"arrival": [0.0, 0.0], "prompt_tokens": [1, 1], "output_tokens": [2, 2]},
        schema_overrides={"prompt_tokens": pl.UInt32, "output_tokens": pl.UInt32},
    )
    columns = RequestColumns.from_outcome(trace, outcome)
    shared = columns["generated_tokens"].to_numpy(allow_copy=False)
    assert np.shares_memory(shared, outcome.columns["generated_tokens"])
    assert np.shares_memory(columns["prompt_tokens"].to_numpy(), trace["prompt_tokens"].to_numpy())


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    class Untouchable:
        def __init__(self, frame: pl.DataFrame) -> None:
            self.frame = frame

        def __getattr__(self, name: str) -> object:
            raise AssertionError(f"read the trace's {name} before any column of the result was read")

    requests = [served(0, 0, 1, 2, output=2)]
    outcome = outcome_of(requests)
    outcome.stats = b"not looked at"
    trace = Untouchable(trace_of(requests).frame)
    result = Result.from_outcome(trace=trace, cluster=None, policy=None, outcome=outcome, settings={})
    assert result.requests["ttft"].to_list() == [1.0]
    assert result.requests is result.requests


def test_a_rejected_request_beside_a_finished_one_survives_pickle_and_arrow() -> None:
    trace = paceline.Trace.from_columns(arrival=[0.0, 0.5], prompt_tokens=[10, 3000], output_tokens=[3, 4])
    cluster = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.01), num_blocks=101)])
    result = paceline.replay(trace, cluster)
    assert result.requests["reason"].is_null().to_list() == [True, False]
    assert pickle.loads(pickle.dumps(result)).requests.equals(result.requests)
    file = io.BytesIO()
    result.requests.write_ipc(file)
    assert pl.read_ipc(io.BytesIO(file.getvalue())).equals(result.requests)
