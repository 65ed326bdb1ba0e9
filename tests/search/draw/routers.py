"""Routers that hold requests, their reports, and when a held request gives up."""

from __future__ import annotations

from search.draw.expressions import Wire
from search.draw.source import Source

BLOCKS = (None, "all", "session")


def routers(source: Source, *, holds: bool) -> Wire:
    """Draw the settings of the routers; only requests that are held give up."""
    return {
        "count": source.pick((1, 1, 1, 2, 3)),
        "report_every": source.maybe(0.6, lambda: source.ticks(1, 200)),
        "give_up_after": source.maybe(0.4, lambda: source.ticks(1, 400)) if holds else None,
        "seed": source.whole(0, 9),
    }


def holding(source: Source, rule: Wire, *, sessions: bool) -> Wire:
    """Return a rule for arrivals that holds a request where no other rule picks an instance."""
    blocks = source.pick(BLOCKS if sessions else BLOCKS[:2])
    hold = {"rule": "hold"} | ({} if blocks is None else {"blocks": blocks})
    return {"rule": "first_of", "rules": [*rule.get("rules", [rule]), hold]}
