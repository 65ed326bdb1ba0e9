"""Dynamo's request traces. Expected values are worked out by hand from the events in `EVENTS`."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from paceline import Cluster, Instance, replay
from paceline.errors import TraceError
from paceline.trace import read_trace

from .conftest import Written

T0 = 1_800_000_000_000


def event(kind: str, at: int, session: str | None = None, parent: str | None = None, **more: Any) -> str:
    made: dict[str, Any] = {"schema": "dynamo.request.trace.v1", "event_type": kind, "event_time_unix_ms": at}
    if session is not None:
        made["agent_context"] = {"session_id": session}
        if parent is not None:
            made["agent_context"]["parent_session_id"] = parent
    return json.dumps(made | more)


def request(name: str, received: int, took: float, hashes: list[int], prompt: int, **more: Any) -> Any:
    return {
        "request": {
            "request_id": name,
            "output_tokens": 8,
            "request_received_ms": received,
            "total_time_ms": took,
            "replay": {
                "trace_block_size": 16,
                "input_length": prompt,
                "input_sequence_hashes": hashes,
            },
        }
        | more
    }


# A planner asks (r1), a subagent asks (r2) while a tool runs, and the planner goes on (r3) after both.
MEASURED = {
    "ttft_ms": 250.0,
    "avg_itl_ms": 12.5,
    "prefill_wait_time_ms": 100.0,
    "prefill_time_ms": 150.0,
    "cached_tokens": 16,
    "queue_depth": 3,
    "model": "m",
    "worker": {"prefill_worker_id": 4, "decode_worker_id": 7, "decode_dp_rank": 1},
}
EVENTS = [
    event("tool_start", T0 - 5, "plan", tool={"tool_call_id": "t0", "tool_class": "x"}),
    event("request_end", T0 + 2000, "plan", **request("r1", T0, 2000.0, [11, 12], 40, **MEASURED)),
    event("request_payload", T0 + 2000, "plan", payload={"request_id": "r1"}),
    event("request_end", T0 + 2900, "sub", "plan", **request("r2", T0 + 2200, 700.0, [21], 17)),
    event(
        "tool_end",
        T0 + 3600,
        "plan",
        tool={"tool_call_id": "t1", "tool_class": "x", "status": "ok", "duration_ms": 1500.0},
    ),
    event("request_end", T0 + 5000, "plan", **request("r3", T0 + 4000, 1000.0, [11, 12, 13], 48)),
    event("request_end", T0 + 6000, **request("r4", T0 + 5500, 500.0, [], 9)),
]


def test_what_was_measured_is_kept_beside_arrivals_lengths_and_prefixes(written: Written) -> None:
    trace = read_trace(written("\n".join(EVENTS), "t.jsonl"))
    frame = trace.frame
    assert trace.source.kind == "dynamo"
    assert trace.prefix_block_tokens == 16
    assert frame["arrival"].to_list() == [0.0, 2.2, 4.0, 5.5]
    assert frame["request_id"].to_list() == ["r1", "r2", "r3", "r4"]
    assert frame["prompt_tokens"].to_list() == [40, 17, 48, 9]
    assert frame["prefix"].to_list() == [[11, 12], [21], [11, 12, 13], []]
    assert frame["session"].to_list() == ["plan", "sub", "plan", None]
    assert (
        frame.row(0, named=True).items()
        >= {
            "measured_ttft": 0.25,
            "measured_itl": 0.0125,
            "measured_e2e": 2.0,
            "measured_queueing": 0.1,
            "measured_prefill": 0.15,
            "measured_cached_tokens": 16,
            "measured_queue_depth": 3,
            "measured_model": "m",
            "worker": "7:1",
            "prefill_worker": "4",
        }.items()
    )
    assert frame["measured_e2e"].to_list() == [2.0, 0.7, 1.0, 0.5]
    assert "think_time" not in frame.columns
    assert "parents" not in frame.columns


def test_dependent_arrivals_fork_and_join(written: Written) -> None:
    frame = read_trace(written("\n".join(EVENTS), "t.jsonl"), arrivals="dependent").frame
    assert frame["parents"].to_list() == [[], ["r1"], ["r1", "r2"], []]
    assert frame["delay"].to_list() == [None, 0.2, 1.1, None]  # 4.0 less 2.9, the end of r2
    # From 2.1 to 3.6, and r1 had ended at 2.0.
    assert frame["tool_time"].to_list() == [None, None, 1.5, None]


def test_a_turn_that_followed_one_answer_has_a_think_time(written: Written) -> None:
    events = [EVENTS[1], EVENTS[5]]
    trace = read_trace(written("\n".join(events), "t.jsonl"), arrivals="dependent")
    assert trace.frame["think_time"].to_list() == [None, 2.0]
    result = replay(trace, Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm")]))
    first, second = result.requests.select("arrival", "finish").rows()
    assert second[0] == pytest.approx(first[1] + 2.0)


def test_packed_segments_are_read(written: Written) -> None:
    data = "\n".join(EVENTS).encode()
    plain = read_trace(written(data, "t.jsonl"))
    assert read_trace(written(gzip.compress(data), "t.000001.jsonl.gz")) == plain


def test_a_request_without_its_moment_is_placed_by_its_end_and_its_length(written: Written) -> None:
    one = {"request": {"request_id": "a", "input_tokens": 9, "output_tokens": 2, "total_time_ms": 400.0}}
    two = {"request": {"request_id": "b", "input_tokens": 8, "output_tokens": 3}}
    text = f"{event('request_end', T0 + 1000, **one)}\n{event('request_end', T0 + 900, **two)}"
    frame = read_trace(written(text, "t.jsonl")).frame
    assert frame.select("arrival", "prompt_tokens").rows() == [(0.0, 9), (0.3, 8)]


def test_a_request_that_was_cut_short_is_dropped_and_counted(written: Written) -> None:
    failed = {"request": {"request_id": "x", "input_tokens": 9}}
    text = "\n".join([*EVENTS, event("request_end", T0 + 7000, **failed)])
    trace = read_trace(written(text, "t.jsonl"))
    assert len(trace) == 4
    assert dict(trace.dropped) == {"no output": 1}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (event("request_end", T0), r"line 2: request must be there in a request_end, was missing"),
        (EVENTS[1].replace("trace.v1", "trace.v2"), r"line 2: schema must be .*v2"),
        (EVENTS[3].replace('"trace_block_size": 16', '"trace_block_size": 64'), "line 2: trace_block_size"),
        (EVENTS[3].replace('"r2"', '"r1"'), r"line 2: request_id must be another in each row, was 'r1'"),
        (EVENTS[3].replace("700.0", "-1.0"), r"line 2: measured_e2e must be a finite number of at least 0"),
        (
            event("request_end", T0, request={"request_id": "q", "output_tokens": 1}),
            "line 2: request must have input_tokens or replay, had neither",
        ),
    ],
)
def test_an_event_that_breaks_a_rule_is_named_by_its_line(written: Written, line: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read_trace(written(f"{EVENTS[1]}\n{line}", "t.jsonl"))


def test_a_unit_is_refused_as_the_fields_have_theirs(written: Written) -> None:
    with pytest.raises(TraceError, match="unit='s' is of no use"):
        read_trace(written("\n".join(EVENTS), "t.jsonl"), unit="s")
