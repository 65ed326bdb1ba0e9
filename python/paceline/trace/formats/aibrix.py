"""AIBrix's workload files.

JSON Lines, each with a timestamp (milliseconds) and the requests that are sent then:
prompt_length, output_length and, if any, session_id. The text of prompts is passed over. A
request whose output_length is null has none, as the server decides it: it counts as a request
without output.

If arrivals are dependent, a turn arrives as long after the answer before it in its session as the two stamps
differ: the file has no latencies.
Source: github.com/vllm-project/aibrix, benchmarks/README.md and benchmarks/client/client.py.
"""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl

from paceline.errors import TraceError
from paceline.trace.columns import numbers
from paceline.trace.detection import Recognised
from paceline.trace.jsonlines import Number, read_json_lines
from paceline.trace.parsed import Parsed
from paceline.trace.stamping import moments
from paceline.trace.turns import think_times

__all__ = ["read_aibrix"]


class _Request(msgspec.Struct):
    prompt_length: Number
    output_length: Number | None = None
    session_id: str | int | None = None


class _Row(msgspec.Struct):
    timestamp: Number
    requests: list[_Request]


def read_aibrix(found: Recognised, name: str) -> Parsed:
    """Read a workload, of which each line may hold several requests."""
    parts, lines = read_json_lines(found.text, name, _Row, found.limits)
    stamps: list[Number] = []
    counts: list[int] = []
    requests: list[_Request] = []
    for part in parts:
        stamps.extend(row.timestamp for row in part)
        counts.extend(len(row.requests) for row in part)
        requests.extend(request for row in part for request in row.requests)
    line = np.repeat(np.arange(len(counts), dtype=np.uint32), counts)
    at = moments("arrival", stamps, found.choices.per_second("ms"))
    sessions = [None if one.session_id is None else str(one.session_id) for one in requests]
    columns = [
        at.gather(line),
        numbers("prompt_tokens", [one.prompt_length for one in requests], pl.Int64()),
        numbers("output_tokens", [one.output_length or 0 for one in requests], pl.Int64()),
    ]
    waits = found.choices.waits(name, stamped=True)
    if any(session is not None for session in sessions):
        columns.append(pl.Series("session", sessions, dtype=pl.String))
        if waits:
            columns.append(think_times(columns[0], columns[-1], counts=columns[2] > 0))
    elif waits:
        raise TraceError(f"{name}: arrivals='dependent' needs sessions, and no request has a session_id")
    return Parsed(frame=pl.DataFrame(columns), rows=lines.kept(line))
