"""What a trace does with its rows."""

from __future__ import annotations

import pickle

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import TraceError
from paceline.trace import Trace


def trace_of(*arrival: float) -> Trace:
    prompts = list(range(1, len(arrival) + 1))
    return Trace.from_columns(arrival=list(arrival), prompt_tokens=prompts, output_tokens=[1] * len(arrival))


def test_rows_are_sorted_stably() -> None:
    frame = trace_of(2.0, 1.0, 2.0, 1.0, 0.5).frame
    assert frame["arrival"].to_list() == [0.5, 1.0, 1.0, 2.0, 2.0]
    assert frame["prompt_tokens"].to_list() == [5, 2, 4, 1, 3]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"arrival": [0.0, -1.0]}, r"trace, row 1 \(counting from 0\): arrival must not be negative, was -1"),
        ({"arrival": [0.0, float("nan")]}, r"row 1 .*: arrival must be a finite number, was nan"),
        ({"arrival": [0.0, None]}, r"row 1 .*: arrival must be a finite number, was missing"),
        ({"prompt_tokens": [5, 0]}, r"row 1 .*: prompt_tokens must be at least 1, was 0"),
        ({"prompt_tokens": [5, 2**30]}, r"row 1 .*: prompt_tokens must be a whole number from 0 to"),
        ({"prompt_tokens": [5, 2.5]}, r"row 1 .*: prompt_tokens must be a whole number .*, was 2.5"),
        ({"prompt_tokens": ["a", "b"]}, "could not convert string to float: 'a'"),
        ({"output_tokens": [5]}, "trace: "),
        ({"tenant": [0.5, 2]}, "trace: "),
        ({"ttft": [1, 2]}, "trace: column 'ttft' must have another name: results have a column"),
        ({"arrival": [1.7e9, 1.8e9]}, "look like times since 1970: subtract the first"),
        ({"prefix": [[1], [2]]}, "prefix_block_tokens must be"),
        ({"score": [0.0, float("inf")]}, r"row 1 .*: score must be a finite number, was inf"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_named_with_its_row(columns: dict[str, list[object]], message: str) -> None:
    good = {"arrival": [0.0, 1.0], "prompt_tokens": [5, 6], "output_tokens": [7, 8]}
    with pytest.raises(TraceError, match=message):
        Trace.from_columns(**(good | columns))  # type: ignore[arg-type]


def test_an_empty_trace_is_refused() -> None:
    with pytest.raises(TraceError, match="must have at least one request"):
        trace_of()


def test_a_trace_does_not_change_with_the_array_it_was_built_from() -> None:
    prompts = np.array([5, 6], dtype=np.uint32)
    trace = Trace.from_columns(arrival=[0, 1], prompt_tokens=prompts, output_tokens=[1, 1])
    prompts[0] = 0
    assert trace.frame["prompt_tokens"].to_list() == [5, 6]


def test_changing_the_frame_does_not_change_the_trace() -> None:
    trace = trace_of(0.0, 1.0)
    frame = trace.frame
    frame[0, "prompt_tokens"] = 99
    frame.drop_in_place("output_tokens")
    assert trace == trace_of(0.0, 1.0)


def test_four_times_the_rate_is_a_quarter_of_the_stamps() -> None:
    trace = trace_of(0.5, 1.0, 4.0)
    assert trace.at_rate(scale=4).frame["arrival"].to_list() == [0.125, 0.25, 1.0]
    assert trace.at_rate(scale=4) == trace.scaled(4) == trace.stretched(0.25)


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=30), st.floats(1e-3, 1e3))
def test_a_rate_that_is_set_is_the_rate(arrival: list[float], rate: float) -> None:
    trace = trace_of(*arrival)
    if trace.span_s < 1e-3:
        return
    if trace.span_s * trace.rate_per_s / rate + 1e6 * trace.rate_per_s / rate >= 16_000_000:
        return
    assert trace.at_rate(rate=rate).rate_per_s == pytest.approx(rate, rel=1e-6)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({}, "exactly one of scale and rate, was scale=None, rate=None"),
        ({"scale": 2.0, "rate": 3.0}, r"exactly one of scale and rate, was scale=2\.0, rate=3\.0"),
        ({"scale": 0.0}, r"scale must be a positive finite number, was 0\.0"),
        ({"rate": float("inf")}, "rate must be a positive finite number, was inf"),
    ],
)
def test_at_rate_takes_one_positive_number(bad: dict[str, float], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        trace_of(0.0, 1.0).at_rate(**bad)


def test_a_rate_cannot_be_set_when_all_arrive_at_once() -> None:
    with pytest.raises(TraceError, match="all requests arrive at one instant"):
        trace_of(3.0, 3.0).at_rate(rate=1)


def test_a_stretched_trace_must_still_fit_the_clock() -> None:
    with pytest.raises(TraceError, match="arrival must be below"):
        trace_of(0.0, 1e6).stretched(20)


def test_a_window_holds_its_start_and_not_its_end_and_counts_from_its_start() -> None:
    cut = trace_of(0.0, 1.0, 1.5, 3.0).window(1.0, 3.0)
    assert cut.frame["arrival"].to_list() == [0.0, 0.5]
    assert cut.frame["prompt_tokens"].to_list() == [2, 3]
    with pytest.raises(TraceError, match="no request arrives"):
        trace_of(0.0).window(1.0, 2.0)


def test_a_sample_keeps_requests_in_order_and_none_twice() -> None:
    trace = trace_of(*map(float, range(100)))
    kept = trace.sample(30, seed=1)
    prompts = kept.frame["prompt_tokens"].to_list()
    assert len(prompts) == 30
    assert prompts == sorted(set(prompts))
    assert kept.frame["arrival"].to_list() == [prompt - 1.0 for prompt in prompts]
    assert kept == trace.sample(fraction=0.3, seed=1)
    assert kept != trace.sample(30, seed=2)
    assert trace.sample(100, seed=5) == trace


def test_every_request_is_sampled_equally_often() -> None:
    trace = trace_of(*map(float, range(10)))
    counts = np.zeros(10)
    for seed in range(2000):
        counts[trace.sample(3, seed=seed).frame["prompt_tokens"].to_numpy() - 1] += 1
    # 600 expected of each; the standard deviation of a count is sqrt(2000 * 0.3 * 0.7) = 20.5.
    assert np.abs(counts - 600).max() < 5 * 20.5


def test_concat_lays_traces_end_to_end() -> None:
    joined = Trace.concat([trace_of(1.0, 2.0), trace_of(0.5, 0.5)], gap_s=10)
    assert joined.frame["arrival"].to_list() == [1.0, 2.0, 12.5, 12.5]
    assert joined.source.kind == "concat"


def test_concat_fills_what_has_a_neutral_value_and_refuses_what_has_none() -> None:
    plain = trace_of(0.0)
    rich = Trace.from_columns(
        arrival=[0], prompt_tokens=[9], output_tokens=[3], reasoning_tokens=[2], priority=[-1],
        tenant=["t"], prefix=[[4]], prefix_block_tokens=16,
    )  # fmt: skip
    joined = Trace.concat([plain, rich])
    assert joined.frame.rows() == [(0.0, 1, 1, 0, 0, None, []), (0.0, 9, 3, 2, -1, "t", [4])]
    assert joined.prefix_block_tokens == 16
    scored = Trace.from_columns(arrival=[0], prompt_tokens=[9], output_tokens=[3], score=[0.5])
    with pytest.raises(TraceError, match="score is missing"):
        Trace.concat([plain, scored])


def test_the_summary_of_a_trace_counted_by_hand() -> None:
    trace = Trace.from_columns(arrival=[0, 1, 3, 6], prompt_tokens=[2, 4, 4, 10], output_tokens=[1, 1, 1, 1])
    gaps, prompts, outputs = trace.summary().rows(named=True)
    assert (gaps["count"], gaps["sum"], gaps["mean"], gaps["max"]) == (3, 6.0, 2.0, 3.0)
    assert gaps["cv"] == pytest.approx((2 / 3) ** 0.5 / 2)
    assert (prompts["mean"], prompts["p50"], prompts["p90"], prompts["max"]) == (
        5.0,
        4.0,
        pytest.approx(8.2),
        10.0,
    )
    assert outputs["cv"] == 0.0


def test_the_summary_of_one_request_has_no_gaps() -> None:
    gaps = trace_of(5.0).summary().row(0, named=True)
    assert gaps["count"] == 0
    assert gaps["mean"] is None


def test_equal_traces_have_equal_hashes_whatever_they_are_called() -> None:
    one = Trace(trace_of(0.0, 1.0).frame, name="one")
    assert one == trace_of(0.0, 1.0)
    assert one.sha256 == trace_of(0.0, 1.0).sha256
    assert hash(one) == hash(trace_of(0.0, 1.0))


@pytest.mark.parametrize(
    "change",
    [
        {"arrival": [0.0, 1.5]},
        {"prompt_tokens": [1, 3]},
        {"output_tokens": [2, 1]},
        {"tenant": ["ab", "c"]},
        {"tenant": ["a", "bc"]},
        {"tenant": [None, "abc"]},
        {"session": ["ab", "c"]},
        {"prefix": [[1], [2]]},
        {"prefix": [[], [2]]},
        {"prefix": [[2], []]},
    ],
)
def test_any_change_changes_the_hash(change: dict[str, list[object]]) -> None:
    good = {"arrival": [0.0, 1.0], "prompt_tokens": [1, 2], "output_tokens": [1, 1]}
    tenant_abc = good | {"tenant": ["abc", None]}
    size = 8 if "prefix" in change else None
    changed = Trace.from_columns(**(good | change), prefix_block_tokens=size)  # type: ignore[arg-type]
    others = [Trace.from_columns(**good), Trace.from_columns(**tenant_abc)]  # type: ignore[arg-type]
    assert changed.sha256 not in {other.sha256 for other in others}
    if "prefix" in change:
        nine = Trace.from_columns(**(good | change), prefix_block_tokens=9)  # type: ignore[arg-type]
        assert nine.sha256 != changed.sha256


@pytest.mark.parametrize("change", [{"rate": 3.0}, {"scale": 0.7}])
def test_a_trace_at_another_rate_is_one_of_its_frame(change: dict[str, float]) -> None:
    paced = trace_of(0.0, 0.3, 4.0).at_rate(**change)
    again = Trace(paced.frame, name=paced.name)
    assert (again, again.sha256) == (paced, paced.sha256)
    assert again.columns_for_engine()[0].tolist() == paced.columns_for_engine()[0].tolist()
    with pytest.raises(TraceError, match=r"row 1 .* must be below 16,140,901 s"):
        trace_of(0.0, 1e6).at_rate(scale=1e-3)


def test_zero_and_minus_zero_are_one_arrival() -> None:
    assert trace_of(0.0, 1.0).sha256 == trace_of(-0.0, 1.0).sha256


def test_the_engine_gets_picoseconds_and_the_columns_themselves() -> None:
    trace = trace_of(0.0, 0.1, 3434.946768)
    ticks, prompt, output = trace.columns_for_engine()
    assert ticks.dtype == np.uint64
    assert ticks.tolist() == [0, 100_000_000_000, 3_434_946_768_000_000]
    assert prompt.dtype == output.dtype == np.uint32
    again = trace.columns_for_engine()
    assert np.shares_memory(prompt, again[1])
    assert np.shares_memory(output, again[2])


def test_a_pickled_trace_is_equal() -> None:
    trace = trace_of(0.0, 1.0)
    again = pickle.loads(pickle.dumps(trace))
    assert again == trace
    assert again.source == trace.source


def test_a_frame_may_hold_any_lossless_type() -> None:
    frame = pl.DataFrame(
        {
            "output_tokens": pl.Series([3.0, 4.0]),
            "prompt_tokens": pl.Series([1, 2], dtype=pl.UInt8),
            "arrival": pl.Series([0, 1], dtype=pl.Int64),
        }
    )
    assert Trace(frame).frame.schema == {
        "arrival": pl.Float64,
        "prompt_tokens": pl.UInt32,
        "output_tokens": pl.UInt32,
    }


def test_many_prefixes_are_read_as_few_are() -> None:
    """Lists of any lengths, in a number for which they are joined first."""
    prefixes = [[row, *range(row % 4)][row % 2 :] for row in range(300)]
    prefixes[7], prefixes[9] = [2**64 - 1], []
    rows = {"arrival": [0.0] * 300, "prompt_tokens": [99] * 300, "output_tokens": [1] * 300}
    trace = Trace.from_columns(**rows, prefix=prefixes, prefix_block_tokens=4)
    assert trace.frame["prefix"].to_list() == prefixes
    for wrong in (-1, 2**64, 1.5, "a", None):
        prefixes[250] = [3, wrong]
        with pytest.raises(TraceError, match=r"prefix|UInt64"):
            Trace.from_columns(**rows, prefix=prefixes, prefix_block_tokens=4)
