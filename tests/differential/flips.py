"""Random flips, sizes of pools and leaving pools, added to a drawn configuration."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Wire = dict[str, Any]

POOLS = (0, 1, 2)
WAYS = ((3, 0, 1), (4, 1, 0), (5, 2, 0))
"""The role of each leaving pool, and the pools from which and to which it leads."""
ALL = [*POOLS, *(role for role, _, _ in WAYS)]
COUNTS = ("requests", "prefilling_requests", "decoding_requests", "running", "waiting", "swapped")
KEYS = (*COUNTS, "index", "free_blocks", "outstanding_tokens", "running_tokens")


def _compared(value: Wire, op: str, bound: int) -> Wire:
    return {"op": op, "args": [value, {"const": float(bound)}]}


@st.composite
def _ways(draw: st.DrawFn) -> list[Wire]:
    ways = []
    for role, source, target in WAYS:
        way: Wire = {"role": role, "from": source, "to": target}
        if draw(st.booleans()):
            counted = {"field": f"inst.{draw(st.sampled_from(COUNTS))}"}
            op = draw(st.sampled_from(["le", "eq", "ge"]))
            way["done"] = _compared(counted, op, draw(st.sampled_from([0, 0, 1, 3])))
        else:
            way["delay"] = draw(st.sampled_from([0, 1, 30, 200]))
        ways.append(way)
    return ways


_SOME = st.lists(st.sampled_from(ALL), min_size=1, max_size=4, unique=True)


@st.composite
def _flip(draw: st.DrawFn) -> Wire:
    within = draw(st.one_of(st.none(), st.none(), _SOME))
    if draw(st.booleans()):
        of: Wire = {"rule": draw(st.sampled_from(["round_robin", "fewest_requests", "fewest_tokens"]))}
        of["within"] = within
    else:
        key = {"field": f"inst.{draw(st.sampled_from(KEYS))}"}
        of = {"rule": "pick", "min": [key], "where": None, "accept": None, "within": within}
    rule = {
        "rule": "flip",
        "of": of,
        "to": draw(st.sampled_from(POOLS)),
        "keep": draw(st.sampled_from([0, 0, 1, 2])),
    }
    if draw(st.booleans()):
        return rule
    over = {"over": "sum", "of": {"field": f"inst.{draw(st.sampled_from(KEYS))}"}, "within": draw(_SOME)}
    when = _compared(over, draw(st.sampled_from(["gt", "le"])), draw(st.integers(0, 6)))
    return {"rule": "when", "of": rule, "when": when}


def _rules(draw: st.DrawFn) -> Wire:
    """Draw when and how fast a pool grows or shrinks."""
    by = st.sampled_from(["instances", "percent"]).flatmap(
        lambda kind: st.fixed_dictionaries({kind: st.sampled_from([0, 1, 2, 50, 100, 130])})
    )
    limits = st.lists(st.fixed_dictionaries({"per": st.sampled_from([1, 25, 140]), "by": by}), max_size=2)
    return {
        "window": draw(st.sampled_from([0, 0, 45, 140])),
        "limits": draw(limits),
        "select": draw(st.sampled_from(["most", "least"])),
    }


@st.composite
def scale(draw: st.DrawFn) -> Wire:
    """Draw an action that sets the size of a pool."""
    pool, off = draw(st.sampled_from([(0, 1), (1, 0), (2, 0)]))

    def choice() -> Wire:
        key = {"field": f"inst.{draw(st.sampled_from(KEYS))}"}
        bound = _compared({"field": "inst.index"}, "ge", 1)
        return {"min": [key], "where": draw(st.sampled_from([None, None, bound]))}

    counted = {"over": "sum", "of": {"field": f"inst.{draw(st.sampled_from(COUNTS))}"}, "within": draw(_SOME)}
    when = _compared({"over": "count", "of": {"const": 1.0}, "within": draw(_SOME)}, "ge", 1)
    least = draw(st.integers(0, 2))
    return {
        "action": "scale",
        "pool": pool,
        "off": off,
        "wanted": {"op": "div", "args": [counted, {"const": float(draw(st.sampled_from([0, 1, 2, 3])))}]},
        "when": draw(st.sampled_from([None, None, when])),
        "least": least,
        "most": draw(st.sampled_from([None, 2, 4])),
        "averaged": draw(st.sampled_from([0, 0, 60, 150])),
        "up": _rules(draw),
        "down": _rules(draw),
        "start": choice(),
        "stop": choice(),
    }


@st.composite
def with_flips(draw: st.DrawFn, config: Wire, *, moves: bool) -> Wire:
    """Return a configuration with flips at some moments before its own rules."""
    routing = dict(config["routing"])
    for moment in ("on_arrival", "on_prefilled", "on_answering"):
        if (moment == "on_arrival" or moves) and draw(st.booleans()):
            rest = [routing[moment]] if routing[moment] is not None else []
            routing[moment] = {"rule": "first_of", "rules": [draw(_flip()), *rest]}
    if moves and draw(st.booleans()):
        action = draw(scale()) if draw(st.booleans()) else {"action": "flip", "rule": draw(_flip())}
        routing["every"] = [
            *routing["every"],
            {"period": draw(st.sampled_from([20, 70])), "actions": [action]},
        ]
    return {**config, "routing": routing, "leaving": draw(_ways())}
