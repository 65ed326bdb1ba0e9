"""Vidur's request traces.

CSV of arrived_at (seconds), num_prefill_tokens, num_decode_tokens; other columns
are passed over. Time is the file's own.
Source: github.com/microsoft/vidur, data/processed_traces.
"""

from __future__ import annotations

import polars as pl

from paceline.trace.columns import seconds, tokens
from paceline.trace.delimited import read_delimited
from paceline.trace.detection import Recognised
from paceline.trace.parsed import Parsed
from paceline.trace.stamping import scaled

__all__ = ["read_vidur"]


def read_vidur(found: Recognised, name: str) -> Parsed:
    """Read a Vidur trace."""
    table, rows = read_delimited(found.text, name, found.columns, found.limits)
    arrival = seconds(table.get_column("arrived_at"), rows)
    per_second = found.choices.per_second("s")
    frame = pl.DataFrame(
        {
            "arrival": arrival if per_second == 1 else scaled(arrival, per_second),
            "prompt_tokens": tokens(table.get_column("num_prefill_tokens"), rows),
            "output_tokens": tokens(table.get_column("num_decode_tokens"), rows),
        }
    )
    return Parsed(frame=frame, rows=rows)
