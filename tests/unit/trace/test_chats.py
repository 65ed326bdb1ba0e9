"""Formats of chats and agents with their own fields: Bailian, Applied Compute, AIBrix and Baseten."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from paceline import Cluster, Concurrency, Instance, policies, replay
from paceline.errors import TraceError
from paceline.trace import Trace, read_trace

from .conftest import Written


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def chat(number: int, parent: int, at: float, turn: int, **more: Any) -> dict[str, Any]:
    return {
        "chat_id": number, "parent_chat_id": parent, "timestamp": at, "input_length": 40, "output_length": 9,
        "type": "text", "turn": turn, "hash_ids": [5, 6, number], **more,
    }  # fmt: skip


CHAIN = [chat(12, -1, 3.25, 1), chat(30, 12, 8.0, 2), chat(41, 30, 9.5, 3)]


def test_a_follow_up_of_bailian_is_a_turn_of_its_roots_session(written: Written) -> None:
    path = written(lines(*CHAIN), "t.jsonl")
    trace = read_trace(path)
    assert trace.source.kind == "bailian"
    assert trace.prefix_block_tokens == 16
    assert trace.frame["session"].to_list() == ["12", "12", "12"]
    assert trace.frame["turn"].to_list() == [1, 2, 3]
    assert trace.frame["type"].to_list() == ["text"] * 3
    assert "think_time" not in trace.frame.columns
    waiting = read_trace(path, arrivals="dependent")
    assert waiting.frame["think_time"].to_list() == [None, 4.75, 1.5]
    assert "parents" not in waiting.frame.columns


def test_a_chat_of_bailian_that_forks_waits_by_parents(written: Written) -> None:
    text = lines(*CHAIN, chat(50, 12, 10.0, 2), chat(60, -1, 11.0, 1), chat(61, 60, 11.5, 2))
    frame = read_trace(written(text, "t.jsonl"), arrivals="dependent").frame
    assert frame["session"].to_list() == ["12", "12", "12", "12", "60", "60"]
    assert frame["parents"].to_list() == [[], ["12"], ["30"], ["12"], [], []]
    assert frame["delay"].to_list() == [None, 4.75, 1.5, 6.75, None, None]
    assert frame["think_time"].to_list() == [None, None, None, None, None, 0.5]


def test_rows_of_bailian_without_their_parent_are_roots_and_counted(written: Written) -> None:
    text = lines(chat(1, 99, 0.0, 4), chat(2, 3, 1.0, 2), chat(3, -1, 2.0, 1), chat(4, 1, 3.0, 5))
    trace = read_trace(written(text, "t.jsonl"), arrivals="dependent")
    assert trace.frame["session"].to_list() == ["1", "2", "3", "1"]
    assert trace.frame["think_time"].to_list() == [None, None, None, 3.0]
    assert trace.source.detail == (
        "1 rows are roots as their parent is not in the file, "
        "1 rows are roots as their parent has a later stamp"
    )


def test_of_equal_stamps_the_parent_comes_first(written: Written) -> None:
    text = lines(chat(7, 5, 1.0, 2), chat(5, -1, 1.0, 1))
    trace = read_trace(written(text, "t.jsonl"), arrivals="dependent")
    assert trace.frame["turn"].to_list() == [1, 2]
    assert trace.frame["think_time"].to_list() == [None, 0.0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([chat(1, -1, 0.0, 1), chat(1, -1, 1.0, 1)], "line 2: chat_id must be unique, was 1 as in"),
        ([chat(1, 2, 0.0, 1), chat(2, 1, 0.0, 1)], "line 1: parent_chat_id must not lead back to the chat"),
        ([chat(1, -1, 0.0, 1, output_length=-4)], "line 1: output_tokens must be"),
    ],
)
def test_chats_that_cannot_be_are_refused(written: Written, rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(TraceError, match=re.escape(message)):
        read_trace(written(lines(*rows), "t.jsonl"))


# The case of Dynamo's own test: prompts of 100, 100 + 10 + 30 and 140 + 20 + 40 tokens.
AGENT = {
    "num_turns": 2,
    "input_prompt_length": 100,
    "assistant_response_length": [10, 20],
    "tool_call_output_length": [30, 40],
    "tool_call_latency": [0.5, 1.25],
    "final_assistant_response_length": 50,
}


def test_a_session_of_applied_compute_becomes_its_turns(written: Written) -> None:
    other = {**AGENT, "num_turns": 0} | {name: [] for name, value in AGENT.items() if isinstance(value, list)}
    trace = read_trace(written(lines(AGENT, other), "t.jsonl"))
    agent = trace.frame.filter(pl.col("session") == "0")
    assert agent["prompt_tokens"].to_list() == [100, 140, 200]
    assert agent["output_tokens"].to_list() == [10, 20, 50]
    assert agent["think_time"].to_list() == [None, 0.5, 1.25]
    assert agent["arrival"].to_list() == [0.0, 0.5, 1.75]
    assert trace.frame.filter(pl.col("session") == "1")["output_tokens"].to_list() == [50]
    assert trace.source.detail == "2 sessions without stamps"


def test_applied_compute_replays_at_a_number_of_sessions_and_finds_its_answers(written: Written) -> None:
    trace = read_trace(written(lines(*[AGENT] * 4), "t.jsonl"))
    cluster = Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm")])
    result = replay(trace, cluster, policies.vllm(prefix_caching=True), clients=Concurrency(1, of="sessions"))
    done = result.requests.sort("arrival")
    turns = done.with_columns(end=pl.col("arrival") + pl.col("e2e"))
    gaps = (turns["arrival"].shift(-1) - turns["end"]).to_list()[:3]
    assert gaps[:2] == pytest.approx([0.5, 1.25], abs=1e-9)
    # 16-token blocks of the 109 tokens that have KV when the first answer ends
    assert turns["cached_tokens"].to_list()[:2] == [0, 96]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"tool_call_latency": [1.0]},
            "line 1: tool_call_latency must have 2 entries as num_turns says, had 1",
        ),
        (
            {"tool_call_latency": [1.0, -1.0]},
            "line 1: tool_call_latency must hold numbers of 0 or more, was -1",
        ),
        ({"num_turns": -1}, "line 1: num_turns must be 0 or more, was -1"),
        ({"input_prompt_length": 2**30}, "line 1: prompt_tokens must be a whole number from 0 to 2**30 - 1"),
    ],
)
def test_sessions_that_cannot_be_are_refused(written: Written, change: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError, match=re.escape(message)):
        read_trace(written(lines({**AGENT, **change}), "t.jsonl"))


def test_applied_compute_has_no_recorded_arrivals_and_no_unit(written: Written) -> None:
    path = written(lines(AGENT), "t.jsonl")
    with pytest.raises(TraceError, match="arrivals='recorded' needs a stamp in every row"):
        read_trace(path, arrivals="recorded")
    with pytest.raises(
        TraceError, match="unit='ms' is of no use: format 'applied_compute_agentic' has its own"
    ):
        read_trace(path, unit="ms")
    with pytest.raises(TraceError, match="block_tokens=16 is of no use"):
        read_trace(path, block_tokens=16)


def test_a_line_of_aibrix_holds_the_requests_of_a_moment(written: Written) -> None:
    text = lines(
        {
            "timestamp": 19,
            "requests": [
                {"prompt": "…", "prompt_length": 101, "output_length": 7, "session_id": 0},
                {"prompt": "…", "prompt_length": 55, "output_length": None},
            ],
        },
        {"timestamp": 40, "requests": []},
        {"timestamp": 1519, "requests": [{"prompt_length": 300, "output_length": 8, "session_id": 0}]},
    )
    path = written(text, "t.jsonl")
    trace = read_trace(path, arrivals="dependent")
    assert trace.frame["arrival"].to_list() == [0.019, 1.519]
    assert trace.frame["think_time"].to_list() == [None, 1.5]
    assert dict(trace.dropped) == {"no output": 1}
    assert read_trace(path).frame.columns == ["arrival", "prompt_tokens", "output_tokens", "session"]
    with pytest.raises(TraceError, match="line 1: output_tokens must be at least 1, was 0"):
        read_trace(path, on_empty_output="error")


def baseten(path: Path, **changed: Any) -> Path:
    columns = {
        "timestamp_start_unix_ms": [1_767_225_600_000, 1_767_225_602_000, 1_767_225_605_500],
        "prompt": ["a", "b", "c"],
        "input_tokens": [100, 60, 180],
        "output_tokens": [20, 5, 9],
        "total_hashes": [[2**64 - 1, 7], None, [2**64 - 1, 7, 9]],
        "block_size": [64, 64, 64],
        "provided_session_id": ["s", "t", "s"],
        "org_id": ["o", "o", "p"],
        "duration_e2e_ms": [1500, 90, 200],
        "duration_ttft_ms": [120, 30, 40],
        "speculation_ratio": [1.5, 1.0, 2.25],
        **changed,
    }
    frame = pl.DataFrame(columns).with_columns(pl.col("total_hashes").cast(pl.List(pl.UInt64)))
    frame.write_parquet(path)
    return path


def test_baseten_keeps_what_was_measured_and_its_sessions(tmp_path: Path) -> None:
    trace = read_trace(baseten(tmp_path / "b.parquet"))
    assert trace.source.kind == "baseten"
    assert trace.prefix_block_tokens == 64
    assert trace.frame["arrival"].to_list() == [0.0, 2.0, 5.5]
    assert trace.frame["prefix"].to_list() == [[2**64 - 1, 7], [], [2**64 - 1, 7, 9]]
    assert trace.frame["tenant"].to_list() == ["o", "o", "p"]
    assert trace.frame["speculation_ratio"].to_list() == [1.5, 1.0, 2.25]
    assert "prompt" not in trace.frame.columns
    waiting = read_trace(baseten(tmp_path / "b.parquet"), arrivals="dependent")
    # 5.5 s less 0 s less 1.5 s
    assert waiting.frame["think_time"].to_list() == [None, None, 4.0]
    with pytest.raises(TraceError, match="block_size must be the same whole number"):
        read_trace(baseten(tmp_path / "c.parquet", block_size=[64, 32, 64]))


def test_parquet_that_is_not_basetens_is_not_read_as_it(tmp_path: Path) -> None:
    path = tmp_path / "own.parquet"
    pl.DataFrame({"arrival": [0.0], "prompt_tokens": [1], "output_tokens": [1]}).write_parquet(path)
    with pytest.raises(TraceError, match="missing timestamp_start_unix_ms"):
        read_trace(path, format="baseten")
    with pytest.raises(TraceError, match="is Parquet, which format 'azure' never is"):
        read_trace(path, format="azure")


OWN = "arrival,prompt_tokens,output_tokens"


def test_a_table_of_ones_own_may_be_in_another_unit_and_count_from_1970(written: Written) -> None:
    text = "sent,prompt_tokens,output_tokens\n1767225600250,5,6\n1767225601500,5,6\n"
    trace = read_trace(written(text), columns={"arrival": "sent"}, unit="ms")
    assert trace.frame["arrival"].to_list() == [0.0, 1.25]
    with pytest.raises(TraceError, match="if they are ms, give unit='ms'"):
        read_trace(written(text), columns={"arrival": "sent"})
    with pytest.raises(TraceError, match="unit='s' has no meaning here: arrivals are dates"):
        read_trace(written(f"{OWN}\n2026-01-01 00:00:00,5,6\n"), unit="s")


def test_a_table_of_ones_own_may_leave_the_size_of_its_ids_to_the_caller(written: Written) -> None:
    assert read_trace(written(f"{OWN},prefix\n0,40,6,1 2\n"), block_tokens=32).prefix_block_tokens == 32
    with pytest.raises(TraceError, match="prefix_block_tokens is a column"):
        read_trace(written(f"{OWN},prefix,prefix_block_tokens\n0,40,6,1 2,32\n"), block_tokens=32)
    with pytest.raises(TraceError, match="there is no column prefix"):
        read_trace(written(f"{OWN}\n0,40,6\n"), block_tokens=32)
    with pytest.raises(TraceError, match="block_tokens must be at least 1, was 0"):
        read_trace(written(f"{OWN}\n0,40,6\n"), block_tokens=0)


def test_arrivals_of_ones_own_trace_can_be_fixed(written: Written) -> None:
    text = f"{OWN},session,think_time\n0,5,6,a,\n4,5,6,a,2.5\n"
    assert read_trace(written(text)).frame["think_time"].to_list() == [None, 2.5]
    fixed = read_trace(written(text), arrivals="recorded")
    assert fixed.frame.columns == [*OWN.split(","), "session"]
    with pytest.raises(TraceError, match="needs one of the columns think_time and parents"):
        read_trace(written(f"{OWN}\n0,5,6\n"), arrivals="dependent")


def test_formats_that_say_nothing_of_answers_cannot_depend_on_them(written: Written) -> None:
    azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:02,7,1\n"
    with pytest.raises(TraceError, match="needs a format that says which request followed which answer"):
        read_trace(written(azure), arrivals="dependent")


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize(
    "text",
    [lines(*CHAIN), lines(*CHAIN, chat(50, 12, 10.0, 2)), lines(AGENT, AGENT)],
    ids=["chain", "fork", "agent"],
)
def test_what_was_read_is_read_again_after_it_was_written(written: Written, text: str, suffix: str) -> None:
    trace = read_trace(written(text, "t.jsonl"), arrivals="dependent")
    path = written(b"", f"again{suffix}")
    trace.write(path)
    again = read_trace(path)
    assert isinstance(again, Trace)
    assert again == trace
