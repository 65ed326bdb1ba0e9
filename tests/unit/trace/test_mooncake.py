"""Mooncake's rows in the variants that Dynamo, AISimulate, aiperf and vLLM have.

Rules are those of Dynamo's lib/mocker/src/loadgen/trace.rs and of AISimulate's page on traffic; times are
worked out by hand.
"""

from __future__ import annotations

import json
import re
import warnings
from typing import Any

import pytest

from paceline.errors import TraceError, TraceWarning
from paceline.trace import Trace, read_trace

from .conftest import Written


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def row(prompt: int, output: int, **more: Any) -> dict[str, Any]:
    return {"input_length": prompt, "output_length": output, **more}


CHAT = lines(
    row(100, 10, session_id="a", timestamp=1000),
    row(50, 5, session_id="b", timestamp=1500),
    row(200, 20, session_id="a", delay=2500, timestamp=4000),
    row(90, 9, session_id="b", timestamp=9500),
    row(7, 7, timestamp=9600),
)


def test_stamped_turns_arrive_at_their_stamps_by_default(written: Written) -> None:
    trace = read_trace(written(CHAT, "t.jsonl"))
    assert trace.frame["arrival"].to_list() == [1.0, 1.5, 4.0, 9.5, 9.6]
    assert trace.frame["session"].to_list() == ["a", "b", "a", "b", None]
    assert "think_time" not in trace.frame.columns


def test_dependent_turns_wait_their_delay_or_the_difference_of_stamps(written: Written) -> None:
    trace = read_trace(written(CHAT, "t.jsonl"), arrivals="dependent")
    assert trace.frame["think_time"].to_list() == [None, None, 2.5, 8.0, None]
    assert trace.frame["arrival"].to_list() == [1.0, 1.5, 4.0, 9.5, 9.6]


def test_a_turn_follows_the_last_one_that_had_an_answer(written: Written) -> None:
    text = lines(
        row(10, 1, session_id="a", timestamp=1000),
        row(10, 0, session_id="a", timestamp=3000),
        row(10, 2, session_id="a", timestamp=7000),
    )
    trace = read_trace(written(text, "t.jsonl"), arrivals="dependent")
    assert trace.frame["think_time"].to_list() == [None, 6.0]
    assert dict(trace.dropped) == {"no output": 1}


def test_turns_without_stamps_follow_answers_and_cannot_do_else(written: Written) -> None:
    text = lines(
        row(10, 1, session_id=7, timestamp=500),
        row(20, 2, session_id=7, delay=1500),
        row(30, 3, session_id=7),
        row(40, 4, session_id=7, delay_ms=250),
    )
    path = written(text, "t.jsonl")
    trace = read_trace(path)
    assert trace.frame["think_time"].to_list() == [None, 1.5, 0.0, 0.25]
    # the earliest moments possible
    assert trace.frame["arrival"].to_list() == [0.5, 2.0, 2.0, 2.25]
    with pytest.raises(TraceError, match="arrivals='recorded' needs a stamp in every row"):
        read_trace(path, arrivals="recorded")


def test_sessions_without_any_stamp_start_at_zero_with_a_warning(written: Written) -> None:
    text = lines(row(10, 1, session_id="a"), row(9, 1, session_id="b"), row(20, 2, session_id="a", delay=4))
    with pytest.warns(TraceWarning, match="has no timestamps"):
        trace = read_trace(written(text, "t.jsonl"))
    assert trace.frame["arrival"].to_list() == [0.0, 0.0, 0.004]
    assert trace.frame["prompt_tokens"].to_list() == [10, 9, 20]


def test_dynamos_priority_is_turned_round(written: Written) -> None:
    text = lines(row(1, 1, timestamp=0, priority=5), row(1, 1, timestamp=1))
    assert read_trace(written(text, "t.jsonl")).frame["priority"].to_list() == [-5, 0]


def test_lengths_may_have_their_other_names_and_a_prompt_that_of_its_ids(written: Written) -> None:
    text = lines(
        {"created_time": 3, "input_tokens": 5, "output_tokens": 6},
        {"created_time": 9, "output_tokens": 7, "hash_ids": [1, 2]},
    )
    trace = read_trace(written(text, "t.jsonl"), block_tokens=32)
    assert trace.frame["prompt_tokens"].to_list() == [5, 64]
    assert trace.prefix_block_tokens == 32


def test_a_unit_is_of_stamps_and_delays_but_not_of_what_is_named_in_milliseconds(written: Written) -> None:
    text = lines(
        row(1, 1, session_id="a", timestamp=2.5),
        row(2, 1, session_id="a", delay=3),
        row(3, 1, session_id="a", delay_ms=3),
    )
    trace = read_trace(written(text, "t.jsonl"), unit="s")
    assert trace.frame["think_time"].to_list() == [None, 3.0, 0.003]


def test_nanoseconds_since_1970_as_text_count_from_the_earliest(written: Written) -> None:
    # LMBench's traces (GMI): the digits are more than a float holds.
    text = lines(row(9, 1, timestamp="1753780607550317897"), row(9, 1, timestamp="1753780607550317997"))
    path = written(text, "t.jsonl")
    assert read_trace(path, unit="ns").frame["arrival"].to_list() == [0.0, 1e-7]
    with pytest.raises(TraceError, match=r"line 1: arrival must be below .* if they are ns, give unit='ns'"):
        read_trace(path)


def test_stamps_in_a_unit_that_makes_no_sense_are_told(written: Written) -> None:
    # Mooncake's own recording: stamps every 3,000 ms
    path = written(lines(*(row(9, 1, timestamp=3000 * at) for at in range(200))), "t.jsonl")
    with pytest.warns(
        TraceWarning,
        match=r"read as s, its stamps mean a request every 3,000 s, 6.9 days in all; if they are ms",
    ):
        read_trace(path, unit="s")
    with pytest.warns(TraceWarning, match=r"mean a request every 180 s"):
        read_trace(written(lines(*(row(9, 1, timestamp=180 * at) for at in range(200))), "u.jsonl"), unit="s")
    with pytest.warns(
        TraceWarning, match=r"read as us, its stamps mean 333,333 requests a second; if they are ms"
    ):
        read_trace(written(lines(*(row(9, 1, timestamp=3 * at) for at in range(200))), "u.jsonl"), unit="us")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_trace(path).span_s == 597.0


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [row(5, 5, session_id="a", timestamp=0, delay=3)],
            "line 1: delay must not be on a first turn, was 0.003 s",
        ),
        ([row(5, 5, timestamp=0), row(5, 5)], "line 2: timestamp must be in the first row of every session"),
        (
            [row(5, 5, session_id="a", timestamp=9), row(5, 5, session_id="a", timestamp=8)],
            "line 2: timestamp must not be before that of the turn before, 0.009 s, was 0.008 s",
        ),
        (
            [
                row(5, 5, session_id="a", timestamp=9),
                row(5, 5, session_id="a"),
                row(5, 5, session_id="a", timestamp=10),
            ],
            "line 3: timestamp follows a turn without one; give its delay instead",
        ),
        (
            [row(5, 5, session_id="a", timestamp=9), row(5, 5, session_id="a", delay=-1)],
            "line 2: delay must be 0 or more, was -1",
        ),
        ([{"timestamp": 0, "output_length": 5, "text_input": "x"}], "missing input_length or input_tokens"),
        (
            [row(5, 5, timestamp=0), {"timestamp": 0, "output_length": 5, "text_input": "x"}],
            "line 2: input_length is missing; a row that has its text instead",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(written: Written, rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(TraceError, match=re.escape(message)):
        read_trace(written(lines(*rows), "t.jsonl"))


def test_dependent_arrivals_need_sessions(written: Written) -> None:
    with pytest.raises(TraceError, match="needs sessions, and no row has a session_id"):
        read_trace(written(lines(row(5, 5, timestamp=0)), "t.jsonl"), arrivals="dependent")


def test_timed_trace_has_seconds_and_prompts_that_end_with_their_ids(written: Written) -> None:
    text = lines(
        row(40, 5, timestamp=1.5, hash_ids=[1, 2, 3]),
        row(1100, 12, timestamp=3, hash_ids=[1, 2]),
    )
    trace = read_trace(written(text, "t.jsonl"), format="timed_trace")
    assert trace.frame["arrival"].to_list() == [1.5, 3.0]
    # 3 ids of 16 tokens hold 40; two hold 32 and no more
    assert trace.frame["prompt_tokens"].to_list() == [40, 32]
    assert trace.prefix_block_tokens == 16
    assert trace.source.detail == "1 prompts end with their ids, before input_length"
    mooncake = read_trace(written(text, "t.jsonl"), format="timed_trace", unit="ms", block_tokens=19)
    assert mooncake.frame["arrival"].to_list() == [0.0015, 0.003]
    assert mooncake.frame["prompt_tokens"].to_list() == [40, 38]
    with pytest.raises(TraceError, match="line 1: hash_ids is missing: vllm bench sends an empty prompt"):
        read_trace(written(lines(row(5, 5, timestamp=0)), "t.jsonl"), format="timed_trace")
    with pytest.raises(TraceError, match="line 1: timestamp is missing"):
        read_trace(written(lines(row(5, 5, hash_ids=[1])), "t.jsonl"), format="timed_trace")


DELTA = [
    row(4, 2, request_id="r0", session_id="s0", hash_ids=[1], timestamp=0),
    row(2, 1, request_id="r1", session_id="s0", hash_ids=[2], delay=5),
]


def test_a_delta_is_appended_to_the_prompt_and_the_answer_before(written: Written) -> None:
    # AISimulate's own case: 4 + 2 + 2 = 8 tokens, 5 ms after the answer
    trace = read_trace(written(lines(*DELTA), "t.jsonl"), format="mooncake-delta", block_tokens=4)
    assert trace.frame["prompt_tokens"].to_list() == [4, 8]
    assert trace.frame["think_time"].to_list() == [None, 0.005]
    assert "prefix" not in trace.frame.columns  # no other session shares anything


def test_deltas_of_sessions_that_share_a_prompt_have_ids_for_whole_blocks(written: Written) -> None:
    other = [row(7, 1, session_id="s1", hash_ids=[1, 9], timestamp=1), row(3, 1, session_id="s1", delay=0)]
    trace = read_trace(written(lines(*DELTA, *other), "t.jsonl"), format="mooncake-delta", block_tokens=4)
    ids = {
        n: got.to_list() for n, got in zip(trace.frame["prompt_tokens"], trace.frame["prefix"], strict=True)
    }
    assert ids[4] == [1]
    assert ids[7] == [1, 9]
    assert ids[8][0] == 1
    assert len(ids[8]) == 2
    # 7 + 1 + 3 = 11 tokens: one whole block of the first prompt, one of this session's own
    assert ids[11][0] == 1
    assert len(ids[11]) == 2
    assert len({ids[8][1], ids[11][1], 9}) == 3


GRAPH = [
    row(4, 2, request_id="root", session_id="s", timestamp=100),
    row(4, 1, request_id="left", session_id="s", wait_for=["root"], delay=2, tool_wait_ms=3),
    row(4, 1, request_id="right", wait_for=["root"]),
    row(9, 1, request_id="join", wait_for=["left", "right"], tool_wait_ms=850.0),
]


def test_agentic_rows_wait_for_the_requests_that_they_name(written: Written) -> None:
    trace = read_trace(written(lines(*GRAPH), "t.jsonl"))
    frame = trace.frame.sort("prompt_tokens", "request_id")
    assert frame["request_id"].to_list() == ["left", "right", "root", "join"]
    assert frame["parents"].to_list() == [["root"], ["root"], [], ["left", "right"]]
    assert frame["delay"].to_list() == pytest.approx([0.005, 0.0, None, 0.85])
    assert frame["arrival"].to_list() == pytest.approx([0.105, 0.1, 0.1, 0.955])
    assert trace.source.detail == "agentic"


def test_the_root_may_stand_after_what_waits_for_it(written: Written) -> None:
    trace = read_trace(written(lines(GRAPH[2], GRAPH[0]), "t.jsonl"))
    assert trace.frame["request_id"].to_list() == ["root", "right"]


def test_agentic_rows_are_told_by_any_row_that_waits(written: Written) -> None:
    first = read_trace(written(lines(*GRAPH[1:2], GRAPH[0]), "t.jsonl"))
    assert first.source.kind == "agentic_mooncake"
    assert read_trace(written(lines(*GRAPH), "t.jsonl")).source.kind == "mooncake"


def test_agentic_rows_with_stamps_may_arrive_at_them(written: Written) -> None:
    stamped = [{**one, "timestamp": 100 * at} for at, one in enumerate(GRAPH)]
    recorded = read_trace(written(lines(*stamped), "t.jsonl"))
    assert recorded.frame["arrival"].to_list() == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert "parents" not in recorded.frame.columns
    dependent = read_trace(written(lines(*stamped), "t.jsonl"), arrivals="dependent")
    assert dependent.frame["parents"].to_list()[3] == ["left", "right"]
    # no sooner than the latest parent's stamp and the delay
    assert dependent.frame["arrival"].to_list() == pytest.approx([0.0, 0.1, 0.2, 1.05])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(1, 1, wait_for=["x"])], "line 1: request_id is missing"),
        (
            [row(1, 1, request_id="a", wait_for=["x"])],
            "line 1: wait_for must name requests of the file, was 'x'",
        ),
        (
            [row(1, 1, request_id="a", wait_for=[]), row(1, 1, request_id="a")],
            "line 2: request_id must be unique, was 'a' as in",
        ),
        (
            [row(1, 1, request_id="a", wait_for=["a"])],
            "line 1: wait_for must not lead back to the request itself",
        ),
        (
            [row(1, 1, request_id="a", wait_for=["b"]), row(1, 1, request_id="b", wait_for=["a"])],
            "line 2: wait_for must not lead back to the request itself, was 'b' waiting for a",
        ),
        (
            [row(1, 1, request_id="a", wait_for=[], tool_wait_ms=5)],
            "line 1: delay and tool_wait_ms follow an answer, and wait_for is empty; were 0.005 s together",
        ),
    ],
)
def test_a_graph_that_cannot_be_is_refused(
    written: Written, rows: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(TraceError, match=re.escape(message)):
        read_trace(written(lines(*rows), "t.jsonl"))


def test_what_waited_for_a_failed_request_waits_for_the_others(written: Written) -> None:
    rows = [GRAPH[0], {**GRAPH[1], "output_length": 0}, *GRAPH[2:]]
    with pytest.warns(TraceWarning, match="1 parents have no output and are dropped"):
        trace = read_trace(written(lines(*rows), "t.jsonl"))
    assert dict(trace.dropped) == {"no output": 1}
    assert trace.frame["parents"].to_list()[-1] == ["right"]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("text", [CHAT, lines(*GRAPH)])
def test_what_was_read_is_read_again_after_it_was_written(written: Written, text: str, suffix: str) -> None:
    trace = read_trace(written(text, "t.jsonl"), arrivals="dependent")
    path = written(b"", f"again{suffix}")
    trace.write(path)
    again = read_trace(path)
    assert isinstance(again, Trace)
    assert again == trace
