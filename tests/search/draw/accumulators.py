"""Accumulators of a scheduler, and keys and admissions that read them."""

from __future__ import annotations

from search.draw.expressions import Wire, const, op
from search.draw.source import Source

UNIT = 2**20
"""What an accumulator counts as one."""

SHARES = (0.5, 2.0, 4.0)
"""The shares of groups."""

_CHARGES = (0, UNIT, UNIT, 2 * UNIT, UNIT // 3, -UNIT)


def accumulated(source: Source, order: Wire) -> Wire:
    """Return a ranked order that reads one or two accumulators: in keys, mostly, and in what it admits."""
    several = source.some(1, 2, lambda: _accumulator(source))
    classes = [
        {**one, "keys": _with_key(source, one["keys"], len(several))} if source.chance(0.8) else one
        for one in order["classes"]
    ]
    admits = _admits(source, several) if source.chance(0.3) else None
    return {**order, "classes": classes, "accumulators": several, "admits": admits}


def _accumulator(source: Source) -> Wire:
    """Draw an accumulator; one that falls with time has no quantum, and charges no running requests."""
    falls = source.pick((0, 0, 0, source.ticks(1, 60)))
    prompt, output = source.pick(_CHARGES), source.pick(_CHARGES)
    return {
        "by": source.pick(("all", "tenant", "tenant", "tenant", "session")),
        "charges": {
            "prompt": prompt,
            "output": output,
            "request": source.pick((0, 0, 0, UNIT, 3 * UNIT)),
            "running": 0 if falls else source.pick((0, 0, UNIT)),
            "when": source.pick(("served", "served", "computed", "finished")),
        },
        "groups": source.some(0, source.pick((0, 0, 1)), lambda: _of_group(source, prompt, output)),
        "lift": source.pick(("none", "waiting", "waiting_or_last")),
        "quantum": 0 if falls else source.pick((0, 0, 5 * UNIT, UNIT // 2)),
        "half_life": falls,
    }


def _of_group(source: Source, prompt: int, output: int) -> Wire:
    """Draw the share of one group: what it is charged for tokens is divided by it."""
    share = source.pick(SHARES)
    return {"code": source.whole(0, 2), "prompt": round(prompt / share), "output": round(output / share)}


def _with_key(source: Source, keys: list[Wire], number: int) -> list[Wire]:
    at = source.whole(0, min(2, len(keys)))
    return [*keys[:at], _key(source, number), *keys[at:2]]


def _key(source: Source, number: int) -> Wire:
    one = _read(source.whole(0, number - 1))
    kind = source.pick(("plain", "plain", "le", "floordiv", "sub", "neg"))
    if kind == "plain":
        return one
    if kind == "neg":
        return op("neg", one)
    if kind == "sub":
        return op("sub", one, _read(source.whole(0, number - 1)))
    return op(kind, one, const(source.whole(1, 20) if kind == "floordiv" else source.whole(-30, 150)))


def _admits(source: Source, several: list[Wire]) -> Wire | None:
    """Draw a condition on an accumulator that does not fall, mostly one that is fulfilled in the end."""
    steady = [index for index, one in enumerate(several) if not one["half_life"]]
    if not steady:
        return None
    index = source.pick(steady)
    kind = source.pick(("deficit", "deficit", "running", "any"))
    if kind == "deficit":
        several[index]["quantum"] = several[index]["quantum"] or UNIT
        return op("gt", _read(index), const(0))
    if kind == "running":
        charges = {"prompt": 0, "output": 0, "request": 0, "running": UNIT, "when": "served"}
        several[index] |= {"charges": charges, "groups": [], "lift": "none"}
        return op("lt", _read(index), const(source.whole(1, 3)))
    return op(source.pick(("gt", "lt")), _read(index), const(source.whole(-30, 150)))


def _read(index: int) -> Wire:
    return {"field": "group.accumulated", "class": index}
