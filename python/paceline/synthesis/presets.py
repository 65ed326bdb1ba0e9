"""Workloads fitted to published statistics, each with its source.

The numbers are in `presets.toml` and, of sessions, in `session_presets.toml`. A
preset of requests holds marginal distributions of lengths, an arrival process
and the rate of its source; not the order of lengths in time, sessions, or shared
prefixes. A preset of sessions (chats and agents) has turns that follow answers.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from paceline._arguments import typed
from paceline.errors import ConfigError
from paceline.synthesis.arrivals import Arrivals, Gamma, Poisson
from paceline.synthesis.lengths import Lengths, Lognormal, Quantiles
from paceline.synthesis.session_presets import session_catalog, sessions_of
from paceline.synthesis.sessions import Sessions
from paceline.synthesis.workload import Workload

__all__ = ["preset", "presets"]


def presets() -> tuple[str, ...]:
    """Name the presets: those of requests, and then those of sessions.

    Examples
    --------
    >>> presets()[:5]
    ('azure-conv', 'azure-code', 'mooncake-conv', 'sharegpt', 'arxiv-summarization')
    >>> presets()[5:]  # doctest: +NORMALIZE_WHITESPACE
    ('tracelab-claude', 'tracelab-codex', 'codex-swe-bench-pro', 'agentperf', 'conversation-replay',
     'synthetic-session', 'mooncake-sessions', 'alibaba-chat', 'alibaba-api')
    """
    return tuple(_catalog())


@typed()
def preset(name: str) -> Workload | Sessions:
    """Give a preset's workload, or its sessions.

    Raises
    ------
    ConfigError
        There is none of that name; the message lists those there are.

    Examples
    --------
    >>> preset("arxiv-summarization").prompt_tokens
    Lognormal(median=7689.6, sigma=0.626, low=1, high=27864)
    """
    found = _catalog().get(name)
    if found is None:
        known = ", ".join(_catalog())
        raise ConfigError(f"workload must be a Workload, Sessions or one of {known}, was {name!r}")
    return found


@cache
def _catalog() -> dict[str, Workload | Sessions]:
    workloads = _workloads()
    sessions = {name: sessions_of(name, entry, workloads) for name, entry in session_catalog().items()}
    return {**workloads, **sessions}


def _workloads() -> dict[str, Workload]:
    text = files("paceline.synthesis").joinpath("presets.toml").read_text(encoding="utf-8")
    return {name: _workload(name, entry) for name, entry in tomllib.loads(text).items()}


def _workload(name: str, entry: dict[str, Any]) -> Workload:
    return Workload(
        name=name,
        arrivals=_arrivals(entry),
        rate=entry.get("rate"),
        prompt_tokens=_lengths(entry["prompt_tokens"]),
        output_tokens=_lengths(entry["output_tokens"]),
        source=entry["source"],
    )


def _arrivals(entry: dict[str, Any]) -> Arrivals:
    return Gamma(cv=entry["gap_cv"]) if "gap_cv" in entry else Poisson()


def _lengths(entry: dict[str, Any]) -> Lengths:
    if "quantiles" in entry:
        return Quantiles(tuple((float(p), int(count)) for p, count in entry["quantiles"]))
    return Lognormal(**entry)
