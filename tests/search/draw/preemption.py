"""The choice of victim, and what happens to its memory."""

from __future__ import annotations

from search.draw.expressions import Wire
from search.draw.source import Source

VICTIMS = ("latest", "worst", "fewest_generated")


def preemption(source: Source, *, swaps: bool) -> Wire:
    if not swaps:
        return {"kind": "recompute"}
    return {
        "kind": "swap",
        "blocks": source.pick((0, 2, 5, 20, 1000, 1000)),
        "out": source.ticks(0, 3) if source.chance(0.6) else 0,
        "back": source.ticks(0, 3) if source.chance(0.6) else 0,
        "overlapped": source.chance(0.4),
    }
