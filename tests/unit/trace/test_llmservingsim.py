"""LLMServingSim's workloads. The session is the example of its README."""

from __future__ import annotations

import pytest

from paceline.errors import TraceError
from paceline.trace import read_trace

from .conftest import Written

SESSION = (
    '{"session_id": "task-0-run0", "arrival_time_ns": 4059740, "sub_requests": ['
    '{"input_toks": 1472, "output_toks": 133, "tool_duration_ns": 127348767},'
    '{"input_toks": 1582, "output_toks": 125, "tool_duration_ns": 0}]}'
)
FLAT = '{"input_toks": 128, "output_toks": 512, "arrival_time_ns": 0}'


def test_a_sessions_tools_are_think_times_and_flat_requests_mix(written: Written) -> None:
    trace = read_trace(written(f"{SESSION}\n{FLAT}", "w.jsonl"))
    frame = trace.frame
    assert trace.source.kind == "llmservingsim"
    assert frame["prompt_tokens"].to_list() == [128, 1472, 1582]
    assert frame["output_tokens"].to_list() == [512, 133, 125]
    assert frame["arrival"][:2].to_list() == [0.0, 0.00405974]
    assert frame["think_time"].to_list() == [None, None, 0.127348767]
    assert frame["session"].to_list() == [None, "task-0-run0", "task-0-run0"]


def test_token_ids_become_blocks_that_are_equal_after_equal_blocks(written: Written) -> None:
    rows = [[1, 2, 3, 4, 5], [1, 2, 3, 9], [3, 4, 1, 2]]
    text = "\n".join(
        f'{{"input_toks": {len(ids)}, "output_toks": 1, "arrival_time_ns": {at}, "input_tok_ids": {ids}}}'
        for at, ids in enumerate(rows)
    )
    trace = read_trace(written(text, "w.jsonl"), block_tokens=2)
    # [1 2] [3 4], [1 2] [3 9], and [3 4] [1 2], which follow nothing that was before.
    assert trace.frame["prefix"].to_list() == [[0, 1], [0, 2], [3, 4]]
    assert trace.prefix_block_tokens == 2


def test_recorded_arrivals_need_stamps(written: Written) -> None:
    with pytest.raises(TraceError, match="arrivals='recorded' needs a stamp in every row"):
        read_trace(written(SESSION, "w.jsonl"), arrivals="recorded")
    assert len(read_trace(written(FLAT, "w.jsonl"), arrivals="recorded")) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"arrival_time_ns": 5, "input_toks": 3}', "line 2: must have sub_requests, or input_toks and"),
        (SESSION.replace("127348767", "-1"), "line 2: tool_duration_ns must not be negative, was -1"),
        (SESSION.replace("1582", "-4"), r"line 2, sub_requests\[1\]: prompt_tokens"),
    ],
)
def test_a_line_that_breaks_a_rule_is_named(written: Written, line: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read_trace(written(f"{FLAT}\n{line}", "w.jsonl"))
