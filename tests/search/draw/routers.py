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


def relay(source: Source, every: int) -> Wire:
    """Draw how instances tell a relay, which publishes every so many ticks at least."""
    return {
        "gap": min(source.pick((0, source.ticks(1, 60))), every),
        "unit": source.pick((1, source.ticks(1, 10))),
        "before": source.chance(0.5),
        "copies": source.maybe(0.4, lambda: source.ticks(1, 60)),
    }


def may_relay(config: Wire) -> bool:
    """Return whether instances may report to a relay: they have no tiers, and step together or not at all."""
    groups = config["lockstep"] or []
    together = all(len(group["members"]) == len(config["instances"]) for group in groups)
    reports = (config.get("routers") or {}).get("report_every") is not None
    return reports and together and not any(one.get("tier") for one in config["instances"])


def holding(source: Source, rule: Wire, *, sessions: bool) -> Wire:
    """Return a rule for arrivals that holds a request where no other rule picks an instance."""
    blocks = source.pick(BLOCKS if sessions else BLOCKS[:2])
    hold = {"rule": "hold"} | ({} if blocks is None else {"blocks": blocks})
    return {"rule": "first_of", "rules": [*rule.get("rules", [rule]), hold]}
