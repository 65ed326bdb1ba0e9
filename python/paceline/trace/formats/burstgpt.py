"""BurstGPT's traces.

CSV of Timestamp (seconds from the midnight before the first request), Model,
Request tokens, Response tokens, Total tokens, Log Type; newer releases insert
Session ID and Elapsed time after the first column. A failed request has no
response tokens. Time is the file's own. Session ids are kept as sessions, models as
measured_model, elapsed times (the measured seconds to the end of the answer) as
measured_e2e; log types by their own name.

If arrivals are dependent, a turn arrives as long after the answer before it in its
session as it did: stamp less stamp less elapsed time of the turn before, at least
0. An elapsed time that is not given counts as 0, and failed turns are passed over.
Source: github.com/HPMLL/BurstGPT (Wang et al., 2024).
"""

from __future__ import annotations

import polars as pl

from paceline.errors import TraceError
from paceline.trace.columns import optional, seconds, tokens
from paceline.trace.delimited import read_delimited
from paceline.trace.detection import Recognised
from paceline.trace.parsed import Parsed
from paceline.trace.stamping import scaled
from paceline.trace.turns import think_times

__all__ = ["read_burstgpt"]


def read_burstgpt(found: Recognised, name: str) -> Parsed:
    """Read a BurstGPT trace in either layout."""
    table, rows = read_delimited(found.text, name, found.columns, found.limits)
    per_second = found.choices.per_second("s")
    stamps = seconds(table.get_column("Timestamp"), rows)
    columns = {
        "arrival": stamps if per_second == 1 else scaled(stamps, per_second),
        "prompt_tokens": tokens(table.get_column("Request tokens"), rows),
        "output_tokens": tokens(table.get_column("Response tokens"), rows),
        "measured_model": table.get_column("Model"),
        "Log Type": table.get_column("Log Type"),
    }
    if "Elapsed time" in table.columns:
        columns["measured_e2e"] = optional(table.get_column("Elapsed time"), rows).alias("measured_e2e")
    waits = found.choices.waits(name, stamped=True)
    if "Session ID" not in table.columns:
        if waits:
            raise TraceError(
                f"{name}: arrivals='dependent' needs the column Session ID, which newer releases have"
            )
        return Parsed(frame=pl.DataFrame(columns), rows=rows)
    columns["session"] = table.get_column("Session ID")
    if waits:
        columns["think_time"] = think_times(
            columns["arrival"],
            columns["session"],
            busy=columns.get("measured_e2e"),
            counts=columns["output_tokens"] > 0,
        )
    return Parsed(frame=pl.DataFrame(columns), rows=rows, detail="with sessions")
