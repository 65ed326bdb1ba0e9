"""Results of a replay: latencies of each request, and counters of each instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline._lazy import attach

if TYPE_CHECKING:
    from paceline.result.loading import load_result
    from paceline.result.output import Output
    from paceline.result.provenance import Provenance
    from paceline.result.result import Result
    from paceline.result.stats import InstanceStats, ReplayStats
    from paceline.result.totals import Totals

__all__ = ["InstanceStats", "Output", "Provenance", "ReplayStats", "Result", "Totals", "load_result"]

attach(
    __name__,
    {
        "loading": ("load_result",),
        "output": ("Output",),
        "provenance": ("Provenance",),
        "result": ("Result",),
        "stats": ("InstanceStats", "ReplayStats"),
        "totals": ("Totals",),
    },
)
