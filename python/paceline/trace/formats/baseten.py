"""Baseten's traces of completions.

Parquet of timestamp_start_unix_ms, prompt, input_tokens, output_tokens and, if any,
total_hashes (ids of blocks of block_size tokens), provided_session_id or poor_man_session_id,
org_id, and what was measured: duration_e2e_ms, duration_ttft_ms, cached_tokens_reference,
request_canceled, speculation_ratio, model_name. Time counts from the earliest stamp. Prompts
are passed over; org_id is the tenant; what was measured is kept by its own name.

If arrivals are dependent, a turn arrives as long after the answer before it in its session as
it did: stamp less stamp less duration_e2e_ms of the turn before, at least 0.
Source: github.com/ai-dynamo/aiperf 0.13, dataset/loader/baseten_trace.py. Arrow IPC, which it
also reads, is not read here.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from paceline._parquet import parse
from paceline.errors import TraceError
from paceline.trace.detection import Recognised
from paceline.trace.parsed import Parsed
from paceline.trace.rows import frame_rows
from paceline.trace.stamping import moments
from paceline.trace.turns import think_times

__all__ = ["read_baseten"]

_SESSIONS: Final = ("provided_session_id", "poor_man_session_id")
_MEASURED: Final = (
    *("duration_e2e_ms", "duration_ttft_ms", "cached_tokens_reference"),
    *("request_canceled", "speculation_ratio", "model_name"),
)


def read_baseten(found: Recognised, name: str) -> Parsed:
    """Read a trace of completions."""
    wanted = [
        *("timestamp_start_unix_ms", "input_tokens", "output_tokens", "total_hashes", "block_size", "org_id"),
        *(*_SESSIONS, *_MEASURED),
    ]
    table = parse(found.text, name, error=TraceError)
    table = table.select(column for column in wanted if column in table.columns)
    rows = frame_rows(name)
    stamps = table.get_column("timestamp_start_unix_ms")
    if not stamps.dtype.is_numeric():
        raise TraceError(f"{name}: timestamp_start_unix_ms must hold numbers, was {stamps.dtype}")
    columns = [
        moments("arrival", stamps.to_list(), found.choices.per_second("ms")),
        table.get_column("input_tokens").alias("prompt_tokens"),
        table.get_column("output_tokens").alias("output_tokens"),
        *(table.get_column(column) for column in _MEASURED if column in table.columns),
    ]
    if "org_id" in table.columns:
        columns.append(table.get_column("org_id").alias("tenant"))
    columns += _turns(table, columns[0], waits=found.choices.waits(name, stamped=True), name=name)
    size = _block_tokens(table, name)
    if size is not None:
        columns.append(table.get_column("total_hashes").alias("prefix"))
    return Parsed(frame=pl.DataFrame(columns), rows=rows, prefix_block_tokens=size)


def _turns(table: pl.DataFrame, arrival: pl.Series, *, waits: bool, name: str) -> list[pl.Series]:
    """Return the sessions and, if turns wait, their think times."""
    column = next((column for column in _SESSIONS if column in table.columns), None)
    if column is None:
        if waits:
            raise TraceError(f"{name}: arrivals='dependent' needs one of the columns {', '.join(_SESSIONS)}")
        return []
    session = table.get_column(column).alias("session")
    if not waits:
        return [session]
    if session.dtype not in (pl.String, pl.Null) and not session.dtype.is_integer():
        return [session]  # the schema refuses it
    busy = table.get_column("duration_e2e_ms") if "duration_e2e_ms" in table.columns else None
    if busy is not None and not (busy.dtype.is_numeric() or busy.dtype == pl.Null):
        raise TraceError(f"{name}: duration_e2e_ms must hold numbers, was {busy.dtype}")
    output = table.get_column("output_tokens")
    counts = output.cast(pl.Float64, strict=False).fill_null(0.0) > 0
    took = None if busy is None else busy.cast(pl.Float64) / 1000
    return [session, think_times(arrival, session, busy=took, counts=counts)]


def _block_tokens(table: pl.DataFrame, name: str) -> int | None:
    """Return the tokens of one id; None if there are no ids."""
    if "total_hashes" not in table.columns or "block_size" not in table.columns:
        return None
    sizes = table.get_column("block_size").drop_nulls().unique()
    if sizes.is_empty():
        return None
    if len(sizes) > 1 or not sizes.dtype.is_integer():
        raise TraceError(f"{name}: block_size must be the same whole number in every row")
    return int(sizes[0])
