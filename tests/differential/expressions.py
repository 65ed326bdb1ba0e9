"""Random expressions over all fields of requests and instances.

Constants are near the values that the fields have in small cases, so that conditions hold about as
often as not. Times are small whole ticks.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from hypothesis import strategies as st

import field_values
from differential.wire import Wire, const, field, op
from field_values import Values, values_of
from paceline.policy.expressions.fields import Meaning

TICKS_PER_SECOND = 10**12

# Fields, and constants to compare them with.
TOKENS = st.integers(0, 60)
COUNTS = st.integers(0, 4)
BLOCKS = st.integers(0, 30)
FLAGS = st.integers(0, 1)
SPANS = st.integers(-20, 150).map(lambda ticks: ticks / TICKS_PER_SECOND)
MOMENTS = st.integers(0, 600).map(lambda ticks: ticks / TICKS_PER_SECOND)

Field = tuple[str, st.SearchStrategy[Any]]
Fields = tuple[Field, ...]
_STRATEGIES: dict[Values, st.SearchStrategy[Any]] = {
    "tokens": TOKENS,
    "blocks": BLOCKS,
    "count": COUNTS,
    "few": st.integers(0, 2),
    "flag": FLAGS,
    "span": SPANS,
    "moment": MOMENTS,
    "share": st.sampled_from([0.0, 0.25, 0.5, 0.9]),
}


def drawn(fields: Mapping[str, Meaning], *but: str) -> Fields:
    return tuple((name, _STRATEGIES[values_of(of)]) for name, of in fields.items() if name not in but)


_COUNTED = ("req.quanta", "req.running")
_STEADY = {name: of for name, of in field_values.OF_REQUEST.items() if not of.drifts}
STEADY: Fields = drawn(_STEADY, *_COUNTED)
COUNTED: Fields = drawn({name: _STEADY[name] for name in _COUNTED})
DRIFTING: Fields = drawn({name: of for name, of in field_values.OF_REQUEST.items() if of.drifts})
OF_REQUEST = STEADY + COUNTED + DRIFTING
OF_INSTANCE: Fields = drawn(field_values.OF_INSTANCE, "class_requests")
# All that a condition for displacing may look at.
STILL = tuple(
    one
    for one in OF_INSTANCE
    if (
        one[0].endswith(("_blocks", "_requests"))
        and one[0] not in ("waiting_blocks", "head_blocks", "fresh_answering_requests")
    )
    or one[0] in ("kv_usage", "running", "waiting", "swapped", "requests")
)
ABOUT_A_REQUEST: Fields = drawn(field_values.ABOUT_A_REQUEST, "prefix_tokens")
COMPARISONS = st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"])


@cache
def prefixed(fields: Fields, *subjects: str) -> Fields:
    return tuple((f"{subject}.{name}", values) for subject in subjects for name, values in fields)


@cache
def comparisons(fields: Fields) -> st.SearchStrategy[Wire]:
    """Draw a comparison of a field with a constant near its values."""
    return st.sampled_from(fields).flatmap(
        lambda one: st.builds(lambda name, value: op(name, field(one[0]), const(value)), COMPARISONS, one[1])
    )


@cache
def conditions(fields: Fields) -> st.SearchStrategy[Wire]:
    """Draw a condition: a comparison, or two that are joined."""
    simple = comparisons(fields)
    joined = st.builds(op, st.sampled_from(["and", "or"]), simple, simple)
    return st.one_of(simple, simple, joined, simple.map(lambda one: op("not", one)))


@cache
def numbers(fields: Fields) -> st.SearchStrategy[Wire]:
    """Draw a number: a field, or some simple arithmetic on one or two."""
    leaf = st.sampled_from(fields).map(lambda one: field(one[0]))
    two = st.builds(op, st.sampled_from(["add", "sub", "mul", "min", "max"]), leaf, leaf)
    divided = leaf.map(lambda one: op("div", one, op("max", const(1), op("abs", one))))
    chosen = st.builds(lambda when, one, other: op("if", when, one, other), comparisons(fields), leaf, leaf)
    return st.one_of(leaf, leaf, leaf.map(lambda one: op("neg", one)), two, divided, chosen)


@cache
def steps_of(one: Field) -> st.SearchStrategy[Wire]:
    """Draw a number that changes by jumps as a field drifts."""
    scale = 1 / TICKS_PER_SECOND if one[0].endswith("_s") else 1
    floored = st.integers(1, 20).map(lambda by: op("floordiv", field(one[0]), const(by * scale)))
    if one[0].endswith("_s"):
        return floored
    return st.one_of(floored, st.just(op("ilog2", op("add", const(1), field(one[0])))))


@cache
def keys(*, refreshed: bool) -> st.SearchStrategy[Wire]:
    """Draw a key; one that drifts only where keys are refreshed."""
    signed = st.sampled_from([lambda one: one, lambda one: op("neg", one)])
    steady = numbers(STEADY + COUNTED)
    jumping = st.one_of(comparisons(OF_REQUEST), st.sampled_from(DRIFTING).flatmap(steps_of))
    drifting = [numbers(OF_REQUEST)] if refreshed else []
    return st.builds(lambda sign, one: sign(one), signed, st.one_of(steady, jumping, *drifting))
