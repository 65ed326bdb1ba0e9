"""The order of the queue: by arrival, by priority, by cached prefix, or by rank in classes."""

from __future__ import annotations

from search.draw.expressions import Wire, condition, key
from search.draw.fields import IN_CLASSES, OF_INSTANCE, subject
from search.draw.source import Source


def a_class(source: Source, *, last: bool, refreshed: bool) -> Wire:
    return {
        "when": None if last else condition(source, IN_CLASSES),
        "hold": source.pick((0, 1, 5, 12)),
        "hold_steps": source.pick((0, 0, 1, 7)),
        "keys": source.some(source.pick((0, 1, 1)), 3, lambda: key(source, refreshed=refreshed)),
    }


def ranked(source: Source, *, cached: bool = False) -> Wire:
    """Draw an order of one to three classes; ``cached``: keys may read what the prefix cache has."""
    refresh = source.pick(("never", "steps", "ticks"))
    count = source.pick((1, 1, 2, 2, 3))
    refreshed = refresh != "never"
    classes = [a_class(source, last=at == count - 1, refreshed=refreshed) for at in range(count)]
    steps = source.pick((1, 2, 7)) if refresh == "steps" else 0
    if cached and steps == 1 and source.chance(0.6):
        source.pick(classes)["keys"][:1] = [_by_cached(source)]
    quantum = source.pick((0, 0, 1, 3, 8))
    if "req.quanta" in str(classes) and source.chance(0.95):
        quantum = source.pick((1, 3, 8))
    return {
        "kind": "ranked",
        "classes": classes,
        "quantum": quantum,
        "levels": _levels(source) if "req.level" in str(classes) or source.chance(0.1) else None,
        "refresh": {
            "steps": steps,
            "ticks": source.ticks(1, 64) if refresh == "ticks" else 0,
        },
    }


def _by_cached(source: Source) -> Wire:
    """Draw the longest cached prefix first, or the fewest tokens that are left, in blocks of some tokens."""
    found = {"field": "req.cached_tokens"}
    if source.chance(0.4):
        return {"op": "neg", "args": [found]}
    left = {"op": "sub", "args": [{"field": "req.context_tokens"}, found]}
    return {"op": "floordiv", "args": [left, {"const": source.pick((1, 4))}]}


def _levels(source: Source) -> Wire:
    return {
        "first": source.ticks(1, 60),
        "entry": {"const": source.whole(0, 3)}
        if source.chance(0.5)
        else {"op": "ilog2", "args": [{"field": "req.prompt_tokens"}]},
        "promote": source.maybe(0.6, lambda: condition(source, IN_CLASSES)),
        "every": source.pick((1, 2, 5, 20)),
    }


def unranked(source: Source, *, cached: bool) -> Wire:
    kind = source.pick(
        ("arrival", "priority", "longest_prefix", "longest_prefix") if cached else ("arrival", "priority")
    )
    if kind == "longest_prefix":
        shares = source.pick((0, 1, 4, 32, 32, 32))
        return {"kind": kind, "most": source.pick((0, 1, 2, 4, 128)), "shares": shares}
    return {"kind": kind}


def admission(source: Source) -> Wire:
    """Draw how the best waiting request is admitted."""
    if source.chance(0.4):
        return {"kind": "wait"}
    return {
        "kind": "displace",
        "when": source.maybe(0.7, lambda: displaces_when(source)),
        "most": source.pick((0, 1, 1, 2)),
    }


def displaces_when(source: Source) -> Wire:
    return condition(source, subject(OF_INSTANCE, "inst"))
