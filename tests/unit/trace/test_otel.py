"""OpenTelemetry's spans: by hand, and inference-perf's published examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import TraceError, TraceWarning
from paceline.trace import Trace, read_trace

from .conftest import Written

T0 = 1_800_000_000_000_000_000


def value(given: Any) -> dict[str, Any]:
    if isinstance(given, int):
        return {"intValue": str(given)}
    return {"doubleValue": given} if isinstance(given, float) else {"stringValue": given}


def span(
    name: str, start: float, end: float, parent: str = "", trace: str = "t", **attributes: Any
) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": name,
        "parentSpanId": parent,
        "name": name,
        "startTimeUnixNano": str(T0 + round(start * 1000) * 10**6),
        "endTimeUnixNano": str(T0 + round(end * 1000) * 10**6),
        "attributes": [
            {"key": f"gen_ai.{key.replace('__', '.')}", "value": value(given)}
            for key, given in attributes.items()
        ],
        "status": {},
    }


def chat(
    name: str, start: float, end: float, parent: str = "", trace: str = "t", **more: Any
) -> dict[str, Any]:
    counts = {"operation__name": "chat", "usage__input_tokens": 100, "usage__output_tokens": 10}
    return span(name, start, end, parent, trace, **(counts | more))


def document(*spans: dict[str, Any]) -> dict[str, Any]:
    half = len(spans) // 2
    return {
        "resourceSpans": [
            {"resource": {}, "scopeSpans": [{"scope": {}, "spans": list(spans[:half])}]},
            {"scopeSpans": [{"spans": list(spans[half:])}]},
        ]
    }


def read(written: Written, *spans: dict[str, Any]) -> Trace:
    return read_trace(written(json.dumps(document(*spans)), "spans.json"), arrivals="dependent")


def parents(trace: Trace) -> dict[str, list[str]]:
    """Return what each call waits for, by think time or by parents."""
    waits: dict[str, list[str]] = {}
    last: dict[str, str] = {}
    for row in trace.frame.rows(named=True):
        turn = [last[row["session"]]] if row.get("think_time") is not None else []
        waits[row["request_id"]] = turn or row.get("parents") or []
        last[row["session"]] = row["request_id"]
    return waits


def test_lengths_and_measurements_of_a_span(written: Written) -> None:
    full = chat(
        "a",
        0.0,
        2.5,
        response__time_to_first_chunk=0.25,
        usage__cache_read__input_tokens=64,
        usage__reasoning__output_tokens=4,
        response__model="m-1",
        conversation__id="c",
    )
    old = span("b", 3.0, 4.0, usage__prompt_tokens=7, usage__completion_tokens=2, system="openai")
    trace = read_trace(written(json.dumps(document(full, old), indent=1), "spans.json"))
    assert trace.source.kind == "otel"
    assert trace.frame.row(0, named=True) == {
        "arrival": 0.0,
        "prompt_tokens": 100,
        "output_tokens": 10,
        "reasoning_tokens": 4,
        "session": "c",
        "request_id": "a",
        "measured_ttft": 0.25,
        "measured_e2e": 2.5,
        "measured_cached_tokens": 64,
        "measured_model": "m-1",
        "conversation": "c",
    }
    assert trace.frame.select("arrival", "prompt_tokens", "output_tokens").row(1) == (3.0, 7, 2)


def test_a_call_waits_for_siblings_that_had_ended_and_tools_take_time(written: Written) -> None:
    trace = read(
        written,
        span("agent", 0.0, 20.0, operation__name="invoke_agent", usage__input_tokens=999),
        chat("a", 0.0, 1.0, "agent"),
        span("tool", 1.0, 3.0, "agent", operation__name="execute_tool"),
        chat("b", 3.5, 5.0, "agent", usage__input_tokens=200),
        chat("c", 4.0, 6.0, "agent"),
        chat("d", 7.0, 8.0, "agent"),
    )
    assert parents(trace) == {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
    # b starts 2.5 s after the end of a: the tool's two seconds and half a second.
    gaps = [row["think_time"] or row["delay"] for row in trace.frame.rows(named=True)]
    assert gaps == [None, 2.5, 3.0, 1.0]


def test_nested_agents_fork_and_join(written: Written) -> None:
    trace = read(
        written,
        span("root", 0.0, 20.0, operation__name="invoke_agent"),
        chat("plan", 0.0, 1.0, "root"),
        span("left", 2.0, 8.0, "root", operation__name="invoke_agent"),
        chat("left-1", 2.0, 3.0, "left"),
        chat("left-2", 4.0, 8.0, "left"),
        span("right", 2.0, 6.0, "root", operation__name="invoke_agent"),
        chat("right-1", 2.5, 6.0, "right"),
        chat("sum", 9.0, 10.0, "root"),
    )
    assert parents(trace) == {
        "plan": [],
        "left-1": ["plan"],
        "left-2": ["left-1"],
        "right-1": ["plan"],
        "sum": ["right-1", "left-2"],
    }


def test_a_call_that_is_another_ones_parent_and_had_ended_is_waited_for(written: Written) -> None:
    trace = read(written, chat("a", 0.0, 1.0), chat("b", 2.0, 3.0, "a"), chat("c", 4.0, 5.0, "b"))
    assert parents(trace) == {"a": [], "b": ["a"], "c": ["b"]}


def test_a_call_around_another_call_is_dropped_and_counted(written: Written) -> None:
    trace = read(written, chat("outer", 0.0, 3.0), chat("inner", 0.5, 2.5, "outer"), chat("next", 4.0, 5.0))
    assert parents(trace) == {"inner": [], "next": ["inner"]}
    assert dict(trace.dropped) == {"wrapper of another call": 1}


def test_traces_of_one_conversation_follow_each_other_and_others_do_not(written: Written) -> None:
    trace = read(
        written,
        chat("a", 0.0, 1.0, trace="t1", conversation__id="c"),
        chat("b", 2.0, 3.0, trace="t2", conversation__id="c", usage__input_tokens=150),
        chat("x", 2.5, 3.0, trace="t3"),
    )
    assert parents(trace) == {"a": [], "b": ["a"], "x": []}
    assert trace.frame["session"].to_list() == ["c", "c", "t3"]


def test_a_prompt_that_does_not_continue_the_one_before_has_a_session_of_its_own(written: Written) -> None:
    trace = read(written, chat("a", 0.0, 1.0), chat("b", 2.0, 3.0, usage__input_tokens=109))
    assert trace.frame["session"].to_list() == ["t", "t/2"]
    assert trace.frame["parents"].to_list() == [[], ["a"]]
    grown = read(written, chat("a", 0.0, 1.0), chat("b", 2.0, 3.0, usage__input_tokens=110))
    assert grown.frame["session"].to_list() == ["t", "t"]
    assert grown.frame["think_time"].to_list() == [None, 1.0]


def test_a_document_a_line_is_read_as_well(written: Written) -> None:
    first, second = chat("a", 0.0, 1.0, trace="t1"), chat("b", 2.0, 3.0, trace="t2")
    lines = f"{json.dumps(document(first))}\n{json.dumps(document(second))}\n"
    assert read_trace(written(lines, "s.jsonl")) == read_trace(
        written(json.dumps(document(first, second), indent=2), "s.json")
    )


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([chat("a", 0.0, 1.0), chat("a", 2.0, 3.0)], "span 1: the id of a span must be unique in its trace"),
        ([chat("a", 0.0, 1.0, "b"), chat("b", 0.0, 1.0, "a")], "span 0: parents of spans must not go round"),
        ([span("a", 0.0, 1.0, operation__name="embeddings")], "has no span that generates"),
        ([chat("a", 0.0, 1.0) | {"startTimeUnixNano": "soon"}], "span 0: startTimeUnixNano must be nanosec"),
        ([span("a", 0.0, 1.0, operation__name="chat", usage__output_tokens=1)], "span 0: prompt_tokens must"),
    ],
)
def test_a_span_that_breaks_a_rule_is_named(
    written: Written, spans: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(TraceError, match=message):
        read(written, *spans)


# The dependencies that the examples' names and README give, by the calls' order in the file.
EXAMPLES = {
    "simple_chain": [[], [0], [1]],
    "fan_in_dependencies": [[], [0], [0], [1, 2]],
    "parallel_requests": [[], [0], [0], [1, 2], [3]],
    "multi_agent_research": [[], [0], [0], [0], [1, 2, 3], [4], [5], [5], [5], [6, 7, 8], [9], [10]],
    "code_review_workflow": [
        *([], [0], [0], [0], [1, 2, 3], [4], [5], [5], [5], [6, 7, 8], [9], [10], [10], [10]),
        [11, 12, 13],
    ],
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_published_examples_have_their_graph(real: Path, name: str) -> None:
    file = real / "samples" / "otel" / f"{name}.json"
    if not file.exists():
        pytest.skip(f"{file} is not there")
    with pytest.warns(TraceWarning, match="estimated from texts, at four characters a token"):
        trace = read_trace(file, arrivals="dependent")
    names = [one["span_id"] for one in json.loads(file.read_text())["spans"]]
    expected = {names[at]: [names[parent] for parent in waits] for at, waits in enumerate(EXAMPLES[name])}
    assert parents(trace) == expected
    assert "estimated" in trace.source.detail


def test_the_published_example_with_counts(real: Path) -> None:
    file = real / "samples" / "otel" / "prefix_sharing_example.json"
    if not file.exists():
        pytest.skip(f"{file} is not there")
    trace = read_trace(file, arrivals="dependent")
    assert trace.frame["prompt_tokens"].to_list() == [50, 45, 100, 180, 270, 380, 40]
    assert trace.frame["output_tokens"].to_list() == [20, 15, 50, 60, 70, 55, 10]
    chain = trace.frame.filter(trace.frame["conversation"] == "conversation_trace")
    assert chain["session"].n_unique() == 1
    assert chain["think_time"].to_list() == [None, 1.0, 0.5, pytest.approx(0.2)]
