"""Periodic rules: migrations, live ones among them, sizes of pools, and gauges."""

from __future__ import annotations

from search.draw.expressions import REDUCTIONS, Wire, condition, const, number, op, over, over_holds, roles
from search.draw.fields import OF_INSTANCE, OF_REQUEST, subject
from search.draw.source import Source

OF_ONE = subject(OF_INSTANCE, "inst")


def monitors(source: Source) -> list[Wire]:
    """Draw monitors, and gauges that some of their actions read."""
    drawn: list[Wire] = source.some(1, 2, lambda: _monitor(source))
    if source.chance(0.6):
        return drawn
    gauges = source.some(1, 2, lambda: _gauge(source))
    for action in (action for one in drawn for action in one["actions"]):
        read = {"field": "inst.gauge", "class": source.whole(0, len(gauges) - 1)}
        if action["action"] == "scale" and source.chance(0.7):
            within = source.maybe(0.5, lambda: roles(source))
            action["wanted"] = {"over": source.pick(REDUCTIONS), "of": read, "within": within}
        side = source.pick(("source", "target") if action["action"] == "migrate" else ("start", "stop"))
        action[side]["min"] = [read, *action[side]["min"]] if source.chance(0.4) else action[side]["min"]
    for gauge in gauges:
        actions = source.pick(tuple(drawn))["actions"]
        actions.insert(source.whole(0, len(actions)), gauge)
    placed = (action for one in drawn for action in one["actions"] if action["action"] == "gauge")
    for index, gauge in enumerate(placed):
        gauge["index"] = index
    return drawn


def _gauge(source: Source) -> Wire:
    return {
        "action": "gauge",
        "of": number(source, OF_ONE),
        "within": source.maybe(0.5, lambda: roles(source)),
        "window": source.pick((0, source.ticks(1, 200), source.ticks(1, 200))),
        "take": source.pick(("max", "min", "mean")),
    }


def _monitor(source: Source) -> Wire:
    def action() -> Wire:
        return scale(source) if source.chance(0.3) else migrate(source)

    return {"period": source.ticks(3, 80), "actions": source.some(1, 2, action)}


def scale(source: Source) -> Wire:
    """Draw the size of a pool; an instance goes between the pools at once."""
    pool = source.whole(0, 2)
    least = source.pick((0, 1, 1, 2))
    wanted = over(source, OF_ONE)
    return {
        "action": "scale",
        "pool": pool,
        "off": (pool + source.whole(1, 2)) % 3,
        "wanted": op("div", wanted, const(source.whole(1, 4))) if source.chance(0.6) else wanted,
        "when": source.maybe(0.2, lambda: over_holds(source, OF_ONE)),
        "least": least,
        "most": source.maybe(0.5, lambda: max(1, least + source.whole(0, 2))),
        "averaged": source.pick((0, 0, source.ticks(1, 200))),
        "up": _rules(source),
        "down": _rules(source),
        "start": {"min": source.some(1, 2, lambda: number(source, OF_ONE)), "where": None},
        "stop": {
            "min": source.some(1, 2, lambda: number(source, OF_ONE)),
            "where": source.maybe(0.3, lambda: condition(source, OF_ONE)),
        },
    }


def _rules(source: Source) -> Wire:
    def limit() -> Wire:
        kind, amount = source.pick((("instances", source.whole(0, 2)), ("percent", source.whole(0, 150))))
        return {"per": source.ticks(1, 200), "by": {kind: amount}}

    return {
        "window": source.pick((0, 0, source.ticks(1, 200))),
        "limits": source.some(0, 2, limit),
        "select": source.pick(("most", "least")),
    }


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
