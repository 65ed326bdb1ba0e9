"""BurstGPT's traces.

CSV of Timestamp (seconds from the midnight before the first request), Model,
Request tokens, Response tokens, Total tokens, Log Type; newer releases insert
Session ID and Elapsed time after the first column. A failed request has no
response tokens. Time is the file's own; models and log types are passed over,
session ids are kept.
Source: github.com/HPMLL/BurstGPT (Wang et al., 2024).
"""

from __future__ import annotations

import polars as pl

from paceline.trace.columns import seconds, tokens
from paceline.trace.delimited import read_delimited
from paceline.trace.detection import Recognised
from paceline.trace.parsed import Parsed

__all__ = ["read_burstgpt"]


def read_burstgpt(found: Recognised, name: str) -> Parsed:
    """Read a BurstGPT trace in either layout."""
    table, rows = read_delimited(found.text, name, found.columns, found.limits)
    columns = {
        "arrival": seconds(table.get_column("Timestamp"), rows),
        "prompt_tokens": tokens(table.get_column("Request tokens"), rows),
        "output_tokens": tokens(table.get_column("Response tokens"), rows),
    }
    if "Session ID" in table.columns:
        columns["session"] = table.get_column("Session ID")
        return Parsed(frame=pl.DataFrame(columns), rows=rows, detail="with sessions")
    return Parsed(frame=pl.DataFrame(columns), rows=rows)
