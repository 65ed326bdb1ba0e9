"""Periodic migration rules, live migrations among them."""

from __future__ import annotations

from search.draw.expressions import Wire, condition, number, over_holds, roles
from search.draw.fields import OF_INSTANCE, OF_REQUEST, subject
from search.draw.source import Source

OF_ONE = subject(OF_INSTANCE, "inst")


def monitor(source: Source) -> Wire:
    return {"period": source.ticks(3, 80), "actions": source.some(1, 2, lambda: migrate(source))}


def migrate(source: Source) -> Wire:
    def side() -> Wire:
        def where() -> Wire:
            return over_holds(source, OF_ONE) if source.chance(0.2) else condition(source, OF_ONE)

        return {
            "min": [number(source, OF_ONE)],
            "where": source.maybe(0.35, where),
            "within": source.maybe(0.25, lambda: roles(source)),
        }

    return {
        "action": "migrate",
        "source": side(),
        "target": side(),
        "choose": {
            "min": source.some(1, 2, lambda: number(source, OF_REQUEST)),
            "where": source.maybe(0.35, lambda: condition(source, OF_REQUEST)),
            "within": None,
        },
        "when": source.maybe(0.6, lambda: condition(source, subject(OF_INSTANCE, "here", "there"))),
        "live": source.maybe(
            0.5, lambda: {"stages": source.pick((1, 1, 2, 2, 3)), "last_blocks": source.pick((0, 0, 1, 4))}
        ),
    }
