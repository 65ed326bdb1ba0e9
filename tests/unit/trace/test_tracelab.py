"""TraceLab's rounds: by hand, and the sample that its authors publish."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import TraceError
from paceline.trace import read_trace

from .conftest import Written


def round_(
    index: int, total: int, prefix: int, asked: list[str], answered: list[str], **more: Any
) -> dict[str, Any]:
    events = [{"event_type": "tool_result", "timestamp": f"2026-06-01T05:40:{at}Z"} for at in asked]
    events += [{"event_type": "text", "timestamp": f"2026-06-01T05:40:{at}Z"} for at in answered]
    events.append({"event_type": "usage_report", "timestamp": "2026-06-01T05:59:59Z"})
    made = {
        "session_id": "s",
        "round_index": index,
        "input_tokens_total": total,
        "prefix_tokens": prefix,
        "output_tokens": 40,
        "reasoning_output_tokens": 12,
        "timing_events": events,
        "tools": [],
    }
    return made | more


ROUNDS = [
    round_(
        0,
        200,
        130,
        ["20.000"],
        ["25.500", "26.000"],
        user="u1",
        tools=[
            # From before the end of the answer, and after it.
            {
                "tool_name": "Bash",
                "emitted_at": "2026-06-01T05:40:25.500Z",
                "result_at": "2026-06-01T05:40:27Z",
            },
            {
                "tool_name": "Web",
                "emitted_at": "2026-06-01T05:40:26.500Z",
                "result_at": "2026-06-01T05:40:28Z",
            },
        ],
    ),
    # Two results; the round was sent after the second.
    round_(1, 330, 195, ["27.000", "30.000"], ["31.000"], user="u1"),
    # The context was compacted to 70 tokens of it.
    round_(2, 140, 70, ["32.500"], ["34.000"], user="u1", reasoning_output_tokens=None),
]


def test_gaps_between_rounds_are_think_times_of_which_tools_took_a_part(written: Written) -> None:
    text = "\n".join(json.dumps(line) for line in ROUNDS)
    trace = read_trace(written(text, "rounds.jsonl"), arrivals="dependent")
    frame = trace.frame
    assert trace.source.kind == "tracelab"
    assert frame["arrival"].to_list() == [0.0, 10.0, 12.5]
    assert frame["think_time"].to_list() == [None, 4.0, 1.5]  # 26 to 30, 31 to 32.5
    assert frame["tool_time"].to_list() == [None, 2.0, 0.0]  # 26 to 28
    assert frame["measured_e2e"].to_list() == [6.0, 1.0, 1.5]
    assert frame["reasoning_tokens"].to_list() == [12, 12, 0]
    assert frame["tenant"].to_list() == ["u1"] * 3
    assert frame["measured_cached_tokens"].to_list() == [130, 195, 70]


def test_ids_are_made_of_the_split_of_prompts(written: Written) -> None:
    text = "\n".join(json.dumps(line) for line in ROUNDS)
    trace = read_trace(written(text, "rounds.jsonl"))
    assert trace.prefix_block_tokens == 64
    first, second, third = trace.frame["prefix"].to_list()
    # Whole blocks of 200, 330 and 140 tokens; 195 and 70 tokens kept are 3 and 1 of them.
    assert (len(first), len(second), len(third)) == (3, 5, 2)
    assert second[:3] == first
    assert third[:1] == second[:1]
    assert len({*first, *second, *third}) == 3 + 2 + 1


def test_blocks_may_have_another_size(written: Written) -> None:
    text = "\n".join(json.dumps(line) for line in ROUNDS)
    trace = read_trace(written(text, "rounds.jsonl"), block_tokens=10)
    assert trace.prefix_block_tokens == 10
    assert trace.frame["prefix"].list.len().to_list() == [20, 33, 14]


def test_sessions_share_no_ids_and_rounds_may_be_in_any_order(written: Written) -> None:
    other = [line | {"session_id": "t"} for line in ROUNDS]
    mixed = [ROUNDS[2], other[0], ROUNDS[0], other[2], other[1], ROUNDS[1]]
    trace = read_trace(written("\n".join(map(json.dumps, mixed)), "r.jsonl"), arrivals="dependent")
    ids = {}
    for session in ("s", "t"):
        rows = trace.frame.filter(trace.frame["session"] == session)
        assert rows["think_time"].to_list() == [None, 4.0, 1.5]
        ids[session] = set(rows["prefix"].explode(empty_as_null=False))
    assert ids["s"].isdisjoint(ids["t"])


def test_a_session_within_a_call_of_an_agent_forks_and_joins(written: Written) -> None:
    call = {
        "tool_name": "Task",
        "emitted_at": "2026-06-01T05:40:10Z",
        "result_at": "2026-06-01T05:40:30Z",
    }
    short = call | {"result_at": "2026-06-01T05:40:19.5Z"}
    lines = [
        round_(0, 200, 0, ["00.000"], ["10.000"], session_id="main", tools=[call]),
        round_(1, 300, 190, ["30.500"], ["33.000"], session_id="main"),
        # Within the call, of the same user and project.
        round_(0, 80, 0, ["12.000"], ["15.000"], session_id="sub"),
        round_(1, 90, 70, ["16.000"], ["29.000"], session_id="sub"),
        # Of another user; and with an end after the call's.
        round_(0, 80, 0, ["12.000"], ["15.000"], session_id="other", user="u2"),
        round_(0, 80, 0, ["12.000"], ["31.000"], session_id="longer"),
        # A call that is too short to have started an agent.
        round_(0, 80, 0, ["05.000"], ["06.000"], session_id="failed", tools=[short]),
    ]
    for line in lines:
        line["timing_events"] = [one for one in line["timing_events"] if one["event_type"] != "usage_report"]
    trace = read_trace(written("\n".join(map(json.dumps, lines)), "r.jsonl"), arrivals="dependent")
    waits = {
        row["request_id"]: (row["think_time"], row["parents"], row["delay"])
        for row in trace.frame.rows(named=True)
    }
    assert waits == {
        "main:1": (None, [], None),
        "sub:1": (None, ["main:1"], 2.0),
        "sub:2": (1.0, [], None),
        "main:2": (None, ["main:1", "sub:2"], 1.5),
        "other:1": (None, [], None),
        "longer:1": (None, [], None),
        "failed:1": (None, [], None),
    }
    assert trace.source.detail == "1 sessions started by others"


def test_rounds_of_one_moment_follow_each_other_in_the_files_order(written: Written) -> None:
    lines = [
        round_(index, 100 + number, 0, ["20.000"], ["20.000"]) for number, index in enumerate([1, 0, 1, 1])
    ]
    trace = read_trace(written("\n".join(map(json.dumps, lines)), "r.jsonl"), arrivals="dependent")
    assert trace.frame["prompt_tokens"].to_list() == [100, 101, 102, 103]
    assert trace.frame["think_time"].to_list() == [None, 0.0, 0.0, 0.0]


def test_rounds_without_stamps_are_dropped_and_counted(written: Written) -> None:
    undated = ROUNDS[1] | {"timing_events": [], "round_index": 9}
    trace = read_trace(written("\n".join(map(json.dumps, [*ROUNDS, undated])), "r.jsonl"))
    assert len(trace) == 3
    assert dict(trace.dropped) == {"no time": 1}


def test_a_stamp_that_is_none_is_named(written: Written) -> None:
    bad = ROUNDS[1] | {"timing_events": [{"event_type": "text", "timestamp": "yesterday"}]}
    with pytest.raises(TraceError, match=r"line 2: .*timestamp"):
        read_trace(written("\n".join(map(json.dumps, [ROUNDS[0], bad])), "r.jsonl"))


def test_the_published_sample(real: Path) -> None:
    file = real / "samples" / "tracelab" / "round_trace.jsonl"
    if not file.exists():
        pytest.skip(f"{file} is not there")
    trace = read_trace(file, arrivals="dependent")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    # Counted apart: one row a line, two sessions, of which all but the first rounds wait.
    assert len(trace) == len(lines) == 19
    frame = trace.frame
    assert frame["session"].n_unique() == len({line["session_id"] for line in lines}) == 2
    assert frame["think_time"].null_count() == 2
    claude = frame.filter(frame["session"].str.starts_with("claude"))
    # The web search's result at 05:40:50.938 came 19.291 s after the last tool call at 05:40:31.647.
    assert claude["think_time"][1] == pytest.approx(19.291)
    assert claude["tool_time"][1] == pytest.approx(19.291)
    # 35,738 of the third round's tokens were cached, and the second had 35,740: 558 blocks are shared.
    second, third = claude["prefix"][1].to_list(), claude["prefix"][2].to_list()
    assert second == third[: len(second)]
    assert len(second) == 35_740 // 64
    assert claude["prompt_tokens"].sum() == sum(
        line["input_tokens_total"] for line in lines if line["provider"] == "claude"
    )
