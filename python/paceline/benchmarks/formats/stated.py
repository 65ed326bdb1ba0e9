"""Statistics that files state, under our names and in seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["flat_ms", "stated_of"]

#: The names that files give a statistic, by ours.
_NAMES = {
    "mean": ("mean", "avg"),
    "median": ("median", "p50"),
    "p90": ("p90",),
    "p95": ("p95",),
    "p99": ("p99",),
}


def stated_of(table: object, *, per_second: float = 1.0) -> dict[str, float]:
    """Return mean, median, P90, P95 and P99 of a table of statistics, as far as it has finite ones.

    Parameters
    ----------
    table
        A dictionary as tools write it; anything else has none.
    per_second
        How many of its unit a second has: 1000 for milliseconds.

    Examples
    --------
    >>> stated_of({"avg": 31.0, "p50": 30.0, "unit": "ms"}, per_second=1000.0)
    {'mean': 0.031, 'median': 0.03}
    """
    if not isinstance(table, Mapping):
        return {}
    found = {}
    for ours, names in _NAMES.items():
        value = next((table[name] for name in names if table.get(name) is not None), None)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            found[ours] = value / per_second
    return found


def flat_ms(document: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Return the statistics of keys such as ``p99_ttft_ms``.

    Parameters
    ----------
    document
        The file's object.
    names
        The file's word for each metric of ours: ``{"e2e": "e2el"}``.

    Examples
    --------
    >>> flat_ms({"mean_ttft_ms": 31.0, "p99_ttft_ms": 40.0}, {"ttft": "ttft"})
    {'ttft': {'mean': 0.031, 'p99': 0.04}}
    """
    found = {}
    for metric, word in names.items():
        table = {
            name: document.get(f"{name}_{word}_ms") for name in ("mean", "median", "p50", "p90", "p95", "p99")
        }
        statistics = stated_of(table, per_second=1000.0)
        if statistics:
            found[metric] = statistics
    return found
