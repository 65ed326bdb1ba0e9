"""A `Trace` and a `Concurrency` of the public API from what the engine reads of clients."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from paceline import Concurrency, Patience, Trace, _native, policies
from paceline._clock import TICKS_PER_SECOND
from search.case import Case
from search.oracle import leaping
from search.oracle.failure import Failure
from search.oracle.replayed import Replayed

Wire = dict[str, Any]
WAITS = (
    *("arrival_ticks", "session", "think_ticks", "parent_ends", "parent_rows", "delay_ticks"),
    *("not_before_ticks", "cancel_after_ticks", "cancel_after_tokens"),
)
"""Columns of what clients do."""


def spelled(replayed: Replayed, seed: int) -> Iterator[Failure]:
    """Replay a case as Python says it to the engine, and yield differences."""
    case = replayed.case
    config = {**case.config, "clients": limit(case)}
    if config["clients"] != case.config.get("clients"):
        yield Failure("API: a limit is another", f"{config['clients']} and {case.config.get('clients')}")
    given = {**case.columns(), **columns(case, seed)}
    again = Replayed(replace(case, config=config), leap=replayed.leap, record=replayed.record, columns=given)
    yield from leaping.same("API: clients mean the same", replayed, again)


def limit(case: Case) -> Wire | None:
    """Return the limit of what is in flight as Python gives it to the engine."""
    wire = case.config.get("clients")
    if wire is None:
        return None
    patience = wire.get("patience")
    if patience is not None and patience["timeout"] is None and not patience["retries"]:
        return wire  # Python does not say what changes nothing
    if wire["most"] is None:
        return Concurrency(patience=_patience(patience)).to_wire()
    built = Concurrency(
        wire["most"],
        patience=None if patience is None else _patience(patience),
        gap_s=wire["gap"] / TICKS_PER_SECOND,
        of="sessions" if wire["by_session"] else "requests",
    )
    return built.to_wire()


def _patience(wire: Wire) -> Patience:
    return Patience(
        timeout_s=_seconds(wire["timeout"]),
        retries=wire["retries"],
        backoff_s=wire["backoff"] / TICKS_PER_SECOND,
        growth=wire["growth"],
        longest_s=wire["longest"] / TICKS_PER_SECOND,
        jitter=wire["jitter"] / 10**6,
        seed=wire["seed"],
    )


def columns(case: Case, seed: int) -> dict[str, Any]:
    """Return what requests wait for as Python gives it to the engine.

    Rows are in another order in the file, but for rows of equal arrivals: that makes no difference.
    """
    rows = [{**row, "request_id": f"r{at}"} for at, row in enumerate(case.requests)]
    mixed = random.Random(seed).sample(range(len(rows)), len(rows))
    alike = {row["arrival"]: iter([one for one in rows if one["arrival"] == row["arrival"]]) for row in rows}
    trace = Trace.from_columns(**_named([next(alike[rows[row]["arrival"]]) for row in mixed]))
    by_session = bool((case.config.get("clients") or {}).get("by_session"))
    built = _native.columns(trace, policies.vllm(), sessions=by_session)
    return {name: values for name, values in built.items() if name in WAITS}


def _named(rows: list[Wire]) -> dict[str, list[Any]]:
    """Return rows as columns of a trace, times in seconds."""
    columns: dict[str, list[Any]] = {
        "arrival": [_seconds(row["arrival"]) for row in rows],
        "prompt_tokens": [row["prompt_tokens"] for row in rows],
        "output_tokens": [row["output_tokens"] for row in rows],
        "request_id": [row["request_id"] for row in rows],
    }
    if "session" in rows[0]:
        columns["session"] = [None if row["session"] is None else f"s{row['session']}" for row in rows]
    if "parents" in rows[0]:
        columns["parents"] = [[f"r{parent}" for parent in row["parents"]] for row in rows]
        columns["delay"] = [_seconds(row["delay"]) if row["parents"] else None for row in rows]
    for name, column in (
        ("think_time", "think"),
        ("not_before", "not_before"),
        ("cancel_after", "cancel_after"),
    ):
        if column in rows[0]:
            columns[name] = [_seconds(row[column]) for row in rows]
    if "cancel_tokens" in rows[0]:
        columns["cancel_after_tokens"] = [row["cancel_tokens"] for row in rows]
    return columns


def _seconds(ticks: int | None) -> float | None:
    return None if ticks is None else ticks / TICKS_PER_SECOND
