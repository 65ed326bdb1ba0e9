"""Random limits of a step: expressions over the instance, and limits on the prompts that join others."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from hypothesis import strategies as st

import field_values
from differential.compositions import Composed, compositions
from differential.expressions import OF_INSTANCE, STEADY, comparisons, numbers, prefixed
from differential.wire import Wire, const, field, op
from paceline.policy.step_limits import UNCHANGING

OWN = prefixed(tuple(one for one in OF_INSTANCE if one[0] not in ("role",)), "inst")
_NOT_KEPT = tuple(one for one in OWN if not one[0].startswith("inst.routed"))
STILL = tuple(one for one in STEADY if field_values.OF_REQUEST[one[0]].name in UNCHANGING)
COUNTS = st.integers(1, 12)


@cache
def limits() -> st.SearchStrategy[Wire]:
    """Draw a limit: one of two numbers by a condition, or a number that a field moves."""
    chosen = st.builds(
        lambda when, one, other: op("if", when, const(one), const(other)),
        comparisons(_NOT_KEPT),
        st.integers(-1, 40),
        st.integers(0, 12),
    )
    field_of = st.sampled_from(_NOT_KEPT).map(lambda one: field(one[0]))
    moved = st.builds(
        lambda name, one, value: op(name, const(value), one),
        st.sampled_from(["add", "sub", "sub", "min", "max"]),
        field_of,
        st.integers(1, 30),
    )
    divided = st.builds(
        lambda one, by, value: op("add", const(value), op("floordiv", one, const(by))),
        field_of,
        st.integers(2, 9),
        st.integers(1, 4),
    )
    return st.one_of(chosen, chosen, moved, divided, numbers(_NOT_KEPT))


@cache
@st.composite
def limited(draw: st.DrawFn, *, kind: str = "any", moves: bool = False) -> Composed:
    """Draw a case whose instances have limits that vary, limits on prompts, or both."""
    case = draw(compositions(kind=kind, moves=moves))
    for one in case.config["instances"]:
        scheduler = one["scheduler"]
        whole = any(stage.get("chunked") is False for stage in scheduler["stages"])
        varying: Wire = {}
        if not whole and draw(st.booleans()):
            least = draw(st.integers(1, min(8, scheduler["max_num_batched_tokens"])))
            varying["tokens"] = {"least": least, "of": draw(limits())}
        if draw(st.sampled_from([False, False, True])):
            varying["chunk"] = draw(limits())
        joining: Wire = {}
        if draw(st.booleans()):
            joining["prefills"] = draw(st.integers(1, 3))
        if (scheduler["long_prefill_token_threshold"] or "chunk" in varying) and draw(st.booleans()):
            joining["long_prefills"] = draw(st.integers(1, 2))
        if draw(st.booleans()):
            joining["bucket"] = draw(buckets())
        plain = scheduler["preemption"]["kind"] == "recompute"
        if not moves and plain and draw(st.booleans()):
            joining["adapters"] = draw(st.integers(1, 2))
            joining["adapter_load"] = draw(st.sampled_from([0, 3, 25]))
        scheduler |= {"varying": varying, "joining": joining}
    if not any("adapters" in one["scheduler"]["joining"] for one in case.config["instances"]):
        return case
    adapters = st.sampled_from([None, 0, 0, 1, 1, 2, 3])
    return replace(case, requests=[replace(one, adapter=draw(adapters)) for one in case.requests])


@cache
def buckets() -> st.SearchStrategy[Wire]:
    """Draw a bucket: whole lengths of a prompt, or any number of fields that never change."""
    by_length = st.builds(
        lambda name, by: op("floordiv", field(name), const(by)),
        st.sampled_from(["req.prompt_tokens", "oracle.output_tokens"]),
        st.integers(2, 20),
    )
    return st.one_of(by_length, by_length, comparisons(STILL), numbers(STILL))
