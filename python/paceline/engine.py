"""The door to the native engine: configuration out, columns in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl

from paceline import _core
from paceline._build import warn_of_debug_build
from paceline.errors import PolicyError
from paceline.policy.scheduler import Scheduler
from paceline.trace import Trace

__all__ = ["columns", "run"]

warn_of_debug_build()

_NO_SESSION = np.uint32(2**32 - 1)


def run(
    instances: Sequence[dict[str, Any]],
    columns: Mapping[str, Any],
    *,
    routing: str,
    until_ticks: int | None = None,
    leap: bool = True,
    record_decisions: bool = False,
    progress: Callable[[_core.Progress], object] | None = None,
) -> _core.Outcome:
    """Run the engine on a configuration that is spelled out.

    Parameters
    ----------
    instances
        One dictionary an instance, as `Instance.to_wire` gives, with its
        ``scheduler``.
    columns
        The trace's columns by name, as `columns` gives.
    routing, until_ticks, leap, record_decisions
        The engine's settings; ticks are picoseconds.
    progress
        Called at most ten times a second.

    Returns
    -------
    _core.Outcome
        What happened.
    """
    config = {
        "instances": list(instances),
        "routing": {"on_arrival": {"rule": routing}, "on_prefilled": None, "on_answering": None, "every": []},
        "until": until_ticks,
        "leap": leap,
        "record_decisions": record_decisions,
    }
    return _core.replay(msgspec.json.encode(config), columns, progress)


def columns(trace: Trace, scheduler: Scheduler) -> dict[str, Any]:
    """Give a trace's columns as the engine takes them, those that the scheduler looks at.

    Parameters
    ----------
    trace
        What arrives.
    scheduler
        Whose order needs a rank, and whose prefix cache needs to know what
        prompts share.

    Returns
    -------
    dict
        Arrays by name.

    Raises
    ------
    PolicyError
        If the order needs a column that the trace does not have.
    """
    arrival, prompt, output = trace.columns_for_engine()
    given: dict[str, Any] = {"arrival_ticks": arrival, "prompt_tokens": prompt, "output_tokens": output}
    if "reasoning_tokens" in trace.frame.columns:
        given["reasoning_tokens"] = trace.frame.get_column("reasoning_tokens").fill_null(0).to_numpy()
    if scheduler.order in ("priority", "score"):
        given["priority"] = _ranks(trace, scheduler.order)
    elif scheduler.order == "longest_output":
        given["priority"] = -output.astype(np.int64)
    if scheduler.prefix_cache is not None:
        given.update(_prefixes(trace.frame, trace.prefix_block_tokens))
    return given


def _ranks(trace: Trace, column: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    if column not in trace.frame.columns:
        raise PolicyError(
            f"order {column!r} needs a trace with the column {column}; {trace.name} has "
            f"{', '.join(trace.frame.columns)}"
        )
    values = trace.frame.get_column(column)
    if values.null_count():
        row = int(values.is_null().arg_true()[0])
        raise PolicyError(
            f"order {column!r} needs a {column} in every row; row {row} of {trace.name} has none"
        )
    # Only the order matters to the engine, which ranks by whole numbers.
    return values.rank("dense").cast(pl.Int64).to_numpy()


def _prefixes(frame: pl.DataFrame, block_tokens: int | None) -> dict[str, Any]:
    if "prefix" in frame.columns and block_tokens is not None:
        ids = frame.get_column("prefix").fill_null([])
        return {
            "prefix_ends": ids.list.len().cast(pl.UInt64).cum_sum().to_numpy(),
            "prefix_ids": ids.explode(empty_as_null=False).cast(pl.UInt64).to_numpy(),
            "prefix_block_tokens": block_tokens,
        }
    if "session" in frame.columns:
        sessions = frame.get_column("session")
        codes = (sessions.rank("dense") - 1).cast(pl.UInt32).fill_null(int(_NO_SESSION))
        return {"session": codes.to_numpy()}
    return {}
