"""Random accumulators in the engine's format, and keys and admissions that read them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from hypothesis import strategies as st

from differential import wire
from differential.policies import WireCase, policies
from differential.wire import Wire, const, op

UNIT = 2**20
MOST = 2

CHARGES = st.sampled_from([0, UNIT, UNIT, 2 * UNIT, UNIT // 3, -UNIT])
NUMBERS = st.integers(-30, 150)


def accumulated(index: int) -> Wire:
    return wire.field("group.accumulated", index)


@cache
@st.composite
def accumulators(draw: st.DrawFn) -> Wire:
    """Draw an accumulator; one that falls with time has no quantum, and no charges for running requests."""
    falls = draw(st.sampled_from([0, 0, 0, 3, 40, 1000]))
    own = st.builds(
        lambda code, prompt, output: {"code": code, "prompt": prompt, "output": output},
        st.integers(0, 2),
        CHARGES,
        CHARGES,
    )
    return {
        "by": draw(st.sampled_from(["all", "tenant", "tenant", "tenant", "session"])),
        "charges": {
            "prompt": draw(CHARGES),
            "output": draw(CHARGES),
            "request": draw(st.sampled_from([0, 0, 0, UNIT, 3 * UNIT])),
            "running": 0 if falls else draw(st.sampled_from([0, 0, UNIT])),
            "when": draw(st.sampled_from(["served", "served", "computed", "finished"])),
        },
        "groups": draw(st.lists(own, max_size=1)),
        "lift": draw(st.sampled_from(["none", "waiting", "waiting_or_last"])),
        "quantum": 0 if falls else draw(st.sampled_from([0, 0, 5 * UNIT, UNIT // 2])),
        "half_life": falls,
    }


@cache
def shared_keys(number: int) -> st.SearchStrategy[Wire]:
    """Draw a key that reads accumulators alone."""
    one = st.integers(0, number - 1).map(accumulated)
    return st.one_of(
        one,
        one,
        st.builds(lambda of, bound: op("le", of, const(bound)), one, NUMBERS),
        st.builds(lambda of, by: op("floordiv", of, const(by)), one, st.integers(1, 20)),
        st.builds(lambda left, right: op("sub", left, right), one, one),
        one.map(lambda of: op("neg", of)),
    )


def with_accumulators(draw: st.DrawFn, order: Wire) -> Wire:
    """Return a ranked order whose classes have keys that read accumulators, in any place among others."""
    several = draw(st.lists(accumulators(), min_size=1, max_size=MOST))
    classes = []
    for one in order["classes"]:
        keys = [*one["keys"][:2]]
        keys.insert(draw(st.integers(0, len(keys))), draw(shared_keys(len(several))))
        classes.append({**one, "keys": keys})
    steady = [index for index, one in enumerate(several) if not one["half_life"]]
    admits = None
    if steady and draw(st.sampled_from([False, False, True])):
        comparison = draw(st.sampled_from(["gt", "gt", "lt"]))
        admits = op(comparison, accumulated(draw(st.sampled_from(steady))), const(draw(NUMBERS)))
        # Mostly one that quanta or finished requests fulfil in the end.
        if draw(st.integers(0, 3)):
            index = draw(st.sampled_from(steady))
            if several[index]["quantum"] or draw(st.booleans()):
                several[index] |= {"quantum": several[index]["quantum"] or UNIT}
                admits = op("gt", accumulated(index), const(0))
            else:
                several[index]["charges"] = {"prompt": 0, "output": 0, "running": UNIT, "when": "served"}
                several[index]["groups"], several[index]["lift"] = [], "none"
                admits = op("lt", accumulated(index), const(draw(st.integers(1, 3))))
    return {**order, "classes": classes, "accumulators": several, "admits": admits}


@st.composite
def accumulating(draw: st.DrawFn, *, moves: bool = True) -> WireCase:
    """Draw a case in which instances rank by accumulators."""
    case = draw(policies(moves=moves))
    instances = []
    for one in case.config["instances"]:
        order = with_accumulators(draw, one["scheduler"]["order"])
        instances.append({**one, "scheduler": {**one["scheduler"], "order": order}})
    requests = case.requests
    if draw(st.booleans()):
        requests = [replace(one, session=min(one.tenant, len(requests) - 1)) for one in requests]
    return WireCase(requests=requests, config={**case.config, "instances": instances})
