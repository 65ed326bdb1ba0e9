"""Sessions fitted to published statistics, each with its source and what is assumed beyond it.

The numbers are in `session_presets.toml`; docs/guides/agents.md has them in a table.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, cast

from paceline.synthesis.durations import Durations, ExponentialTime, FixedTime, LognormalTime, QuantileTime
from paceline.synthesis.lengths import Constant, Lengths, Lognormal
from paceline.synthesis.log_quantiles import LogQuantiles
from paceline.synthesis.populations import SharedPrompts, Tenants
from paceline.synthesis.sessions import ContextLimit, Sessions, ToolLoop, TurnTokens
from paceline.synthesis.workload import Workload

__all__ = ["session_catalog", "sessions_of"]


@cache
def session_catalog() -> dict[str, dict[str, Any]]:
    """Return the tables of `session_presets.toml` by name."""
    text = files("paceline.synthesis").joinpath("session_presets.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def sessions_of(name: str, entry: dict[str, Any], workloads: dict[str, Workload]) -> Sessions:
    """Return the sessions of a table; lengths may be those of another preset."""

    def lengths(of: dict[str, Any]) -> Lengths:
        if "preset" in of:
            return cast(Lengths, workloads[of["preset"]].output_tokens)
        if "constant" in of:
            return Constant(of["constant"])
        if "quantiles" in of:
            return LogQuantiles(_points(of["quantiles"]))
        if "median" in of and "mean" in of:
            return Lognormal.from_mean_and_median(of["mean"], of["median"], high=of["high"])
        if "mean" in of:
            return Lognormal.from_mean(of["mean"], sigma=of["sigma"], high=of["high"])
        return Lognormal(**of)

    tools, shared, limit = (entry.get(part) for part in ("tools", "shared", "limit"))
    return Sessions(
        name=name,
        rate=entry.get("rate"),
        turns=lengths(entry["turns"]),
        tokens=TurnTokens(**{part: lengths(of) for part, of in entry["tokens"].items()}),
        think_time=_times(entry.get("think_time", {"fixed_s": 0.0})),
        tools=None
        if tools is None
        else ToolLoop(
            steps=lengths(tools["steps"]), tokens=lengths(tools["tokens"]), delay=_times(tools["delay"])
        ),
        shared=None
        if shared is None
        else SharedPrompts(
            lengths(shared["tokens"]), **{key: of for key, of in shared.items() if key != "tokens"}
        ),
        limit=None if limit is None else _limit(limit),
        tenants=Tenants(**entry["tenants"]) if "tenants" in entry else None,
        source=entry["source"],
    )


def _limit(of: dict[str, Any]) -> ContextLimit:
    if "summary" in of:
        return ContextLimit(of["tokens"], summary=Constant(of["summary"]))
    return ContextLimit(of["tokens"], then=of["then"])


def _times(of: dict[str, Any]) -> Durations:
    if "quantiles" in of:
        return QuantileTime(_points(of["quantiles"]))
    if "fixed_s" in of:
        return FixedTime(of["fixed_s"])
    if "exponential_mean_s" in of:
        return ExponentialTime(of["exponential_mean_s"])
    return LognormalTime(**of)


def _points(pairs: list[list[float]]) -> tuple[tuple[float, float], ...]:
    return tuple((float(p), float(value)) for p, value in pairs)
