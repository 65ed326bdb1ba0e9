"""Random expressions over all fields of requests and instances.

Constants are near the values that the fields have in small cases, so that conditions hold about as
often as not. Times are small whole ticks.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from differential.wire import Wire, const, field, op

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
STEADY: Fields = (
    ("req.arrival_s", MOMENTS),
    ("req.joined_s", MOMENTS),
    ("req.prompt_tokens", TOKENS),
    ("req.phase", st.integers(0, 2)),
    ("req.priority", st.integers(0, 2)),
    ("req.score", st.integers(0, 2)),
    ("req.tenant", st.integers(0, 2)),
    ("req.preemptions", COUNTS),
    ("req.prefill_s", SPANS),
    ("oracle.output_tokens", TOKENS),
    ("oracle.reasoning_tokens", TOKENS),
)
COUNTED: Fields = (("req.quanta", COUNTS), ("req.running", FLAGS))
DRIFTING: Fields = (
    ("req.generated_tokens", TOKENS),
    ("req.context_tokens", TOKENS),
    ("req.kv_tokens", TOKENS),
    ("req.blocks", BLOCKS),
    ("req.age_s", SPANS),
    ("req.waiting_s", SPANS),
    ("req.idle_steps", COUNTS),
    ("req.attained_s", SPANS),
    ("req.slack_s", SPANS),
    ("oracle.remaining_tokens", TOKENS),
)
OF_REQUEST = STEADY + COUNTED + DRIFTING
OF_INSTANCE: Fields = (
    ("kv_tokens", TOKENS),
    ("gpu_kv_tokens", TOKENS),
    ("cpu_kv_tokens", TOKENS),
    ("free_blocks", BLOCKS),
    ("total_blocks", BLOCKS),
    ("block_tokens", COUNTS),
    ("free_cpu_blocks", BLOCKS),
    ("kv_usage", st.sampled_from([0.0, 0.25, 0.5, 0.9])),
    ("running", COUNTS),
    ("waiting", COUNTS),
    ("swapped", COUNTS),
    ("requests", COUNTS),
    ("reasoning_requests", COUNTS),
    ("answering_requests", COUNTS),
    ("fresh_answering_requests", COUNTS),
    ("answering_on_pace", FLAGS),
    ("running_tokens", TOKENS),
    ("outstanding_tokens", TOKENS),
    ("mean_token_interval_s", SPANS),
    ("prefill_delay_s", SPANS),
    ("waiting_blocks", BLOCKS),
    ("head_blocks", BLOCKS),
    ("role", st.integers(0, 2)),
    ("index", COUNTS),
)
# All fields that a condition for displacing may read.
STILL = tuple(
    one
    for one in OF_INSTANCE
    if (
        one[0].endswith(("_blocks", "_requests"))
        and one[0] not in ("waiting_blocks", "head_blocks", "fresh_answering_requests")
    )
    or one[0] in ("kv_usage", "running", "waiting", "swapped", "requests")
)
ABOUT_A_REQUEST: Fields = (("fits", FLAGS), ("prefill_s", SPANS))
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
    """Draw a number that changes in jumps while a field drifts."""
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
