"""The formats that are read: the fields by which each is told, its containers, and the unit of its stamps."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from paceline.trace.choices import Unit
from paceline.trace.schema import REQUIRED

__all__ = ["CONTAINERS", "FIELDS", "UNITS", "Container", "Format"]

Format: TypeAlias = Literal[
    "azure",
    "burstgpt",
    "mooncake",
    "agentic_mooncake",
    "mooncake-delta",
    "timed_trace",
    "applied_compute_agentic",
    "bailian",
    "baseten",
    "aibrix",
    "vidur",
    "dynamo",
    "weka",
    "tracelab",
    "llmservingsim",
    "otel",
    "paceline",
]
Container: TypeAlias = Literal["csv", "jsonl", "json", "parquet"]

_LENGTHS: Final = ("input_length|input_tokens", "output_length|output_tokens")

# The fields by which a format is told; of a field with |, one of the names. Of formats that fit alike, the
# first with the most fields is taken: a format with the fields of an earlier one is read on request only.
FIELDS: Final[dict[Format, tuple[str, ...]]] = {
    "azure": ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    "burstgpt": ("Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type"),
    "mooncake": _LENGTHS,
    "agentic_mooncake": ("request_id", *_LENGTHS, "wait_for"),
    "mooncake-delta": _LENGTHS,
    "timed_trace": ("input_length", "output_length"),
    "applied_compute_agentic": (
        *("num_turns", "input_prompt_length", "assistant_response_length", "tool_call_output_length"),
        *("tool_call_latency", "final_assistant_response_length"),
    ),
    "bailian": ("chat_id", "parent_chat_id", "timestamp", "input_length", "output_length"),
    "baseten": ("timestamp_start_unix_ms", "input_tokens", "output_tokens"),
    "aibrix": ("timestamp", "requests"),
    "vidur": ("arrived_at", "num_prefill_tokens", "num_decode_tokens"),
    "dynamo": ("schema", "event_type", "event_time_unix_ms"),
    "weka": ("id", "requests"),
    "tracelab": ("session_id", "round_index", "input_tokens_total", "output_tokens"),
    "llmservingsim": ("sub_requests|input_toks", "arrival_time_ns"),
    "otel": ("resourceSpans|spans",),
    "paceline": REQUIRED,
}

CONTAINERS: Final[dict[Format, tuple[Container, ...]]] = {
    "azure": ("csv",),
    "burstgpt": ("csv",),
    "mooncake": ("jsonl",),
    "agentic_mooncake": ("jsonl",),
    "mooncake-delta": ("jsonl",),
    "timed_trace": ("jsonl",),
    "applied_compute_agentic": ("jsonl",),
    "bailian": ("jsonl",),
    "baseten": ("parquet",),
    "aibrix": ("jsonl",),
    "vidur": ("csv",),
    "dynamo": ("jsonl",),
    "weka": ("jsonl", "json"),
    "tracelab": ("jsonl",),
    "llmservingsim": ("jsonl",),
    "otel": ("jsonl", "json"),
    "paceline": ("csv", "jsonl", "parquet"),
}

# The unit of a format's stamps; seconds, if not given here.
UNITS: Final[dict[Format, Unit]] = {
    "mooncake": "ms",
    "agentic_mooncake": "ms",
    "mooncake-delta": "ms",
    "baseten": "ms",
    "aibrix": "ms",
}
