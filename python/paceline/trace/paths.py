"""The work that lies before each request of a program."""

from __future__ import annotations

import numpy as np
import polars as pl

from paceline._arguments import typed
from paceline.errors import TraceError
from paceline.trace.model import Trace
from paceline.trace.parents import parent_rows

__all__ = ["critical_path"]


@typed(TraceError)
def critical_path(trace: Trace, *, column: str = "critical_path") -> Trace:
    """Return the trace with the tokens of the longest chain of calls before each request.

    A chain leads from a request to those for whose answers it waits (its parents, and with a think time the
    turn before it in its session), and on to those for which they waited. All of them have ended when the
    request arrives, so that a scheduler may know the number.

    Parameters
    ----------
    trace
        The requests, with ``parents`` or ``think_time``.
    column
        The name of the column: prompt and output tokens of the chain with the most; 0 where a request waits
        for no other.

    Raises
    ------
    TraceError
        If no request of the trace waits for another, or it has the column.

    Examples
    --------
    >>> trace = Trace.from_columns(
    ...     arrival=[0.0, 0.0, 1.0], prompt_tokens=[10, 10, 10], output_tokens=[5, 50, 1],
    ...     request_id=["a", "b", "c"], parents=[[], [], ["a", "b"]],
    ... )
    >>> critical_path(trace).frame["critical_path"].to_list()
    [0.0, 0.0, 60.0]
    """
    frame = trace.frame
    if column in frame.columns:
        raise TraceError(f"{trace.name} has a column {column} already: column='another' gives a name")
    before: list[list[int]] = [[] for _ in range(frame.height)]
    if "parents" in frame.columns:
        ends, rows = parent_rows(frame)
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
        for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            before[row] += rows[start:end].tolist()
    if "think_time" in frame.columns:
        latest: dict[str, int] = {}
        turns = frame.select("session", "think_time").iter_rows()
        for row, (session, think) in enumerate(turns):
            if session is None:
                continue
            if think is not None and session in latest:
                before[row].append(latest[session])
            latest[session] = row
    if not any(before):
        raise TraceError(f"critical_path needs requests that wait for others; {trace.name} has none")
    tokens = (frame["prompt_tokens"].cast(pl.Float64) + frame["output_tokens"]).to_list()
    paths: list[float] = []
    for waits in before:
        path = max((paths[row] + tokens[row] for row in waits), default=0.0)
        paths.append(path)
    return trace.with_frame(frame.with_columns(pl.Series(column, paths)))
