"""The order of the queue: by arrival, by priority, by cached prefix, or by rank in classes."""

from __future__ import annotations

from search.draw.expressions import Wire, comparison, condition, key
from search.draw.fields import IN_CLASSES, OF_INSTANCE, Fields, subject
from search.draw.source import Source

# Fields of an instance that stand still from one step to the next unless something happens.
STILL: Fields = {
    name: near
    for name, near in subject(OF_INSTANCE, "inst").items()
    if name.removeprefix("inst.")
    in (
        *("free_blocks", "total_blocks", "free_cpu_blocks", "kv_usage", "running", "waiting", "swapped"),
        *("requests", "reasoning_requests", "answering_requests"),
    )
}


def a_class(source: Source, *, last: bool, refreshed: bool) -> Wire:
    return {
        "when": None if last else condition(source, IN_CLASSES),
        "hold": source.pick((0, 0, 0, 1, 5)),
        "keys": source.some(source.pick((0, 1, 1)), 3, lambda: key(source, refreshed=refreshed)),
    }


def ranked(source: Source) -> Wire:
    """Draw an order of one to three classes."""
    refresh = source.pick(("never", "never", "steps", "ticks"))
    count = source.pick((1, 1, 2, 2, 3))
    refreshed = refresh != "never"
    classes = [a_class(source, last=at == count - 1, refreshed=refreshed) for at in range(count)]
    return {
        "kind": "ranked",
        "classes": classes,
        "quantum": source.pick((0, 0, 1, 3, 8)),
        "refresh": {
            "steps": source.pick((1, 2, 7)) if refresh == "steps" else 0,
            "ticks": source.ticks(1, 64) if refresh == "ticks" else 0,
        },
    }


def unranked(source: Source, *, cached: bool) -> Wire:
    kind = source.pick(("arrival", "priority", "longest_prefix") if cached else ("arrival", "priority"))
    if kind == "longest_prefix":
        return {"kind": kind, "most": source.pick((0, 1, 2, 4, 128))}
    return {"kind": kind}


def admission(source: Source) -> Wire:
    """Draw how the best of those that wait comes in."""
    if source.chance(0.4):
        return {"kind": "wait"}
    return {
        "kind": "displace",
        "when": source.maybe(0.4, lambda: displaces_when(source)),
        "most": source.pick((0, 0, 1, 2)),
    }


def displaces_when(source: Source) -> Wire:
    if source.chance(0.1):
        return comparison(source, subject(OF_INSTANCE, "inst"))
    return condition(source, STILL)
