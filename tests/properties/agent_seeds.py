"""Small valid files of agents' traces, to be damaged."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["AGENT_SEEDS"]

T0 = 1_800_000_000_000


def _lines(*objects: dict[str, Any]) -> bytes:
    return "\n".join(json.dumps(one, separators=(",", ":")) for one in objects).encode()


def _dynamo(kind: str, at: int, session: str, **more: Any) -> dict[str, Any]:
    made = {"schema": "dynamo.request.trace.v1", "event_type": kind, "event_time_unix_ms": T0 + at}
    return made | {"agent_context": {"session_id": session, "parent_session_id": "a"}} | more


def _request(name: str, received: int, took: float) -> dict[str, Any]:
    replay = {"trace_block_size": 16, "input_length": 40, "input_sequence_hashes": [1, 2]}
    made = {"request_id": name, "output_tokens": 8, "request_received_ms": T0 + received}
    return made | {
        "total_time_ms": took,
        "ttft_ms": 1.5,
        "worker": {"decode_worker_id": 3, "decode_dp_rank": 0},
        "replay": replay,
    }


def _span(name: str, parent: str, start: int, end: int) -> dict[str, Any]:
    counts = {"gen_ai.usage.input_tokens": "9", "gen_ai.usage.output_tokens": "2"}
    made = {"traceId": "t", "spanId": name, "parentSpanId": parent}
    return made | {
        "startTimeUnixNano": f"{start}",
        "endTimeUnixNano": f"{end}",
        "attributes": [{"key": key, "value": {"intValue": given}} for key, given in counts.items()],
    }


def _round(index: int, second: int) -> dict[str, Any]:
    events = [("user_message", second), ("text", second + 2)]
    stamped = [{"event_type": kind, "timestamp": f"2026-06-01T05:40:{at}Z"} for kind, at in events]
    made = {"session_id": "s", "round_index": index, "input_tokens_total": 200, "prefix_tokens": 130}
    return made | {"output_tokens": 9, "reasoning_output_tokens": 4, "timing_events": stamped, "tools": []}


_PLAY = {
    "id": "p",
    "block_size": 64,
    "requests": [
        {"t": 0.0, "type": "s", "in": 128, "out": 5, "hash_ids": [0, 1], "api_time": 2.0, "ttft": 0.5},
        {"t": 2.5, "type": "subagent", "requests": [{"t": 3.0, "in": 64, "out": 2, "hash_ids": [0]}]},
        {"t": 9.0, "in": 128, "out": 5, "hash_ids": [0, 1], "think_time": 3.0},
    ],
}
_SPANS = [_span("a", "", 0, 5), _span("b", "", 6, 9), _span("c", "b", 6, 8), _span("d", "b", 8, 9)]
_DOCUMENT = {"resourceSpans": [{"scopeSpans": [{"spans": _SPANS}]}]}
_FLAT = {
    "trace_id": "t",
    "spans": [
        {
            "span_id": "a",
            "start_time": "2026-02-25T10:00:00.5",
            "end_time": "2026-02-25T10:00:01",
            "attributes": {
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": '[{"role":"user","content":"hello"}]',
                "gen_ai.output.text": "hi",
            },
        }
    ],
}

AGENT_SEEDS = [
    _lines(
        _dynamo("request_end", 2000, "a", request=_request("r1", 0, 2000.0)),
        _dynamo("tool_end", 3000, "a", tool={"duration_ms": 500}),
        _dynamo("request_end", 2600, "b", request=_request("r2", 2100, 500.0)),
        _dynamo("request_end", 5000, "a", request=_request("r3", 4000, 1000.0)),
    ),
    _lines(_PLAY, _PLAY | {"id": "q"}),
    json.dumps(_PLAY, indent=1).encode(),
    _lines(_round(0, 20), _round(1, 30)),
    _lines(
        {
            "session_id": "s",
            "arrival_time_ns": 5,
            "sub_requests": [
                {"input_toks": 20, "output_toks": 3, "tool_duration_ns": 7, "input_tok_ids": list(range(20))},
                {"input_toks": 30, "output_toks": 3, "tool_duration_ns": 0},
            ],
        },
        {"input_toks": 5, "output_toks": 3, "arrival_time_ns": 9},
    ),
    _lines(_DOCUMENT),
    json.dumps(_DOCUMENT, indent=1).encode(),
    json.dumps(_FLAT, indent=1).encode(),
]
