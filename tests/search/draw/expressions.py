"""Random expressions.

Constants are near the values that fields have in small cases, so that conditions hold about as often as not.
"""

from __future__ import annotations

from typing import Any

from search.draw.fields import DRIFTING, STEADY, TICKS_PER_SECOND, Fields
from search.draw.source import Source

Wire = dict[str, Any]
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
REDUCTIONS = ("mean", "min", "max", "sum")


def const(value: float) -> Wire:
    return {"const": value}


def op(name: str, *args: Wire) -> Wire:
    return {"op": name, "args": list(args)}


def leaf(source: Source, fields: Fields) -> tuple[str, Wire]:
    """Draw a field: its name, and how it is written."""
    name = source.pick(tuple(fields))
    if name == "req.score" and source.chance(0.3):
        return name, {"field": "req.column", "class": source.whole(0, 1)}
    if name.endswith("class_requests"):
        return name, {"field": name, "class": source.whole(0, 2)}
    return name, {"field": name}


def comparison(source: Source, fields: Fields) -> Wire:
    """Draw a comparison of a field with a constant near its values, or with a field like it."""
    name, field = leaf(source, fields)
    if source.chance(0.1):
        like = tuple(other for other in fields if other.endswith("_s") == name.endswith("_s"))
        other = source.pick(like)
        if not other.endswith("class_requests"):
            return op(source.pick(COMPARISONS), field, {"field": other})
    against = const(fields[name](source))
    if source.chance(0.1):
        return op(source.pick(COMPARISONS), against, field)
    return op(source.pick(COMPARISONS), field, against)


def condition(source: Source, fields: Fields) -> Wire:
    """Draw a comparison, or some that are joined."""
    kind = source.pick(("one", "one", "one", "and", "or", "not", "deep"))
    if kind == "one":
        return comparison(source, fields)
    if kind == "not":
        return op("not", comparison(source, fields))
    if kind == "deep":
        inner = op("and", comparison(source, fields), comparison(source, fields))
        return op("or", op("not", inner), comparison(source, fields), const(source.whole(0, 1)))
    return op(kind, comparison(source, fields), comparison(source, fields))


def number(source: Source, fields: Fields) -> Wire:
    """Draw a field, or some arithmetic on one or two."""
    kind = source.pick(
        ("leaf", "leaf", "leaf", "leaf", "neg", "abs", "two", "two", "two", "div", "if", "const")
    )
    name, one = leaf(source, fields)
    match kind:
        case "leaf":
            return one
        case "const":
            return const(source.whole(-2, 2))
        case "neg" | "abs":
            return op(kind, one)
        case "two":
            other = leaf(source, fields)[1] if source.chance(0.7) else const(fields[name](source))
            return op(source.pick(("add", "sub", "mul", "min", "max")), one, other)
        case "div":
            by = op("max", const(1), op("abs", leaf(source, fields)[1]))
            return op("div", one, by if source.chance(0.5) else const(source.whole(1, 4)))
        case _:
            return op("if", comparison(source, fields), one, leaf(source, fields)[1])


def jump(source: Source) -> Wire:
    """Draw a number that changes in jumps while a field drifts."""
    if source.chance(0.3):
        return comparison(source, {**STEADY, **DRIFTING})
    name, one = leaf(source, DRIFTING)
    timed = name.endswith("_s")
    if not timed and source.chance(0.4):
        return op("ilog2", op("add", const(1), one))
    by = source.ticks(1, 20) / TICKS_PER_SECOND if timed else source.whole(1, 20)
    return op("floordiv", one, const(by))


def key(source: Source, *, refreshed: bool) -> Wire:
    """Draw the key that requests are ranked by; it drifts only if keys are refreshed."""
    drifts = refreshed and source.chance(0.8)
    if drifts:
        drawn = number(source, {**STEADY, **DRIFTING})
    else:
        drawn = number(source, STEADY) if source.chance(0.5) else jump(source)
    return op("neg", drawn) if source.chance(0.35) else drawn


def over(source: Source, fields: Fields) -> Wire:
    """Draw an aggregate over all instances, or over those of some roles."""
    within = source.maybe(0.3, lambda: roles(source))
    if source.chance(0.5):
        return {"over": source.pick(REDUCTIONS), "of": leaf(source, fields)[1], "within": within}
    kind = source.pick(("any", "all", "count"))
    return {"over": kind, "of": comparison(source, fields), "within": within}


def over_holds(source: Source, fields: Fields) -> Wire:
    return op(source.pick(COMPARISONS), over(source, fields), const(source.whole(0, 2)))


def roles(source: Source) -> list[int]:
    return sorted({source.whole(0, 2) for _ in range(source.whole(1, 2))})
