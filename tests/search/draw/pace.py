"""The pace at which tokens are read."""

from __future__ import annotations

from search.draw.expressions import Wire
from search.draw.source import Source


def pace(source: Source) -> Wire:
    interval = source.whole(1, 40)
    return {
        "interval": interval * source.unit,
        "first": source.ticks(interval, 60),
        "ttft": source.maybe(0.6, lambda: source.ticks(0, 100)),
    }
