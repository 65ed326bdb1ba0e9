"""Limits of a step that are expressions: their bounds, and what users write."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import paceline
from paceline import Cluster, Instance, Policy, PolicyError, Scheduler, Trace, inst, req
from paceline.cost import Affine
from paceline.policy import Loras, migrate, pick
from paceline.policy.expressions.bounds import bounds
from paceline.policy.expressions.functions import ilog2, maximum, minimum, where
from paceline.policy.expressions.tree import Const, Expr, Field, Op

BY_LOAD = where(inst.running > 64, 512, 8192)
NAMES = ("running", "waiting", "free_blocks")


def value(of: Expr, given: dict[str, float]) -> float:
    """Compute an expression in Python's numbers."""
    if isinstance(of, Const):
        return float(of.value)  # type: ignore[arg-type]
    if isinstance(of, Field):
        return given[of.name]
    assert isinstance(of, Op)
    parts = [value(part, given) for part in of.parts]
    match of.op:
        case "add":
            return math.fsum(parts)
        case "sub":
            return parts[0] - parts[1]
        case "mul":
            return math.prod(parts)
        case "div":
            return parts[0] / parts[1]
        case "floordiv":
            return math.floor(parts[0] / parts[1])
        case "min" | "max":
            return min(parts) if of.op == "min" else max(parts)
        case "neg":
            return -parts[0]
        case "abs":
            return abs(parts[0])
        case "ilog2":
            return math.floor(math.log2(parts[0])) if parts[0] >= 2 else 0
        case "gt":
            return float(parts[0] > parts[1])
    return parts[1] if parts[0] else parts[2]


FIELDS = st.sampled_from(NAMES).map(lambda name: getattr(inst, name))
NUMBERS = st.recursive(
    FIELDS | st.integers(-9, 9).map(Const),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: two[0] + two[1]),
        st.tuples(inner, inner).map(lambda two: two[0] - two[1]),
        st.tuples(inner, inner).map(lambda two: two[0] * two[1]),
        st.tuples(inner, inner).map(lambda two: minimum(*two)),
        st.tuples(inner, inner).map(lambda two: maximum(*two)),
        st.tuples(inner, inner, inner).map(lambda three: where(three[0] > 3, three[1], three[2])),
        st.tuples(inner, st.integers(1, 9)).map(lambda two: two[0] // two[1]),
        st.tuples(inner, st.integers(1, 9)).map(lambda two: two[0] / two[1]),
        inner.map(lambda one: -one),
        inner.map(abs),
        inner.map(ilog2),
    ),
    max_leaves=8,
)


@given(of=NUMBERS, numbers=st.lists(st.integers(0, 200), min_size=3, max_size=3))
def test_no_value_is_outside_the_bounds(of: Expr, numbers: list[int]) -> None:
    low, high = bounds(of)
    found = value(of, dict(zip(NAMES, map(float, numbers), strict=True)))
    assert low - 1e-6 <= found <= high + 1e-6


def test_memory_is_reserved_for_the_largest_budget() -> None:
    assert Scheduler(max_num_batched_tokens=BY_LOAD).limits(defaults=(2048, 256)) == (8192, 256)


def test_the_engine_is_told_the_bounds() -> None:
    wire = Scheduler(max_num_batched_tokens=minimum(8192.5, 100 * inst.running)).to_wire(
        num_blocks=100, defaults=(2048, 256)
    )
    assert (wire["max_num_batched_tokens"], wire["varying"]["tokens"]["least"]) == (8192, 1)  # type: ignore[index]


def test_a_file_has_the_expressions_as_they_are_written() -> None:
    policy = Policy(
        name="by-load",
        scheduler=Scheduler(
            max_num_batched_tokens=BY_LOAD,
            long_prefill_token_threshold=where(inst.waiting > 8, 256, 0),
            max_num_partial_prefills=4,
            max_long_partial_prefills=2,
            bucket=req.prompt_tokens // 512,
            loras=Loras(4, load_s=0.02),
        ),
    )
    text = policy.to_toml()
    assert 'max_num_batched_tokens = "where(inst.running > 64, 512, 8192)"' in text
    assert Policy.from_toml(text) == policy


def test_requests_of_limited_adapters_do_not_migrate() -> None:
    moves = [
        migrate(source=pick(max=inst.requests), target=pick(min=inst.requests), choose=pick(min=req.age))
    ]
    with pytest.raises(PolicyError, match="loras of a scheduler must be None where requests migrate"):
        Policy(
            name="moves", scheduler=Scheduler(loras=Loras(2)), on_arrival="round_robin", every={1.0: moves}
        )


def test_adapters_are_loaded_and_limited_through_the_public_api() -> None:
    """One adapter at a time, a second a step and half a second to load one: a, a and none, then b."""
    trace = Trace.from_columns(
        arrival=[0.0] * 4, prompt_tokens=[10] * 4, output_tokens=[1] * 4, adapter=["a", "b", "a", None]
    )
    policy = paceline.policies.vllm(loras=Loras(1, load_s=0.5))
    result = paceline.replay(trace, Cluster([Instance(cost=Affine(step_s=1.0), num_blocks=1000)]), policy)
    assert result.requests["first_token"].to_list() == [1.5, 3.0, 1.5, 1.5]


@pytest.mark.parametrize(
    ("scheduler", "first_tokens"),
    [
        # Two prompts of 100 tokens, a second a step: in one step together, or one after the other.
        (Scheduler(max_num_batched_tokens=8192), [1.0, 1.0]),
        (Scheduler(max_num_batched_tokens=where(inst.waiting > 1, 100, 8192)), [1.0, 2.0]),
        (Scheduler(max_num_partial_prefills=1, max_num_batched_tokens=8192), [1.0, 2.0]),
        (Scheduler(bucket=req.priority, max_num_batched_tokens=8192), [1.0, 4.0]),
    ],
)
def test_limits_have_their_effect_through_the_public_api(
    scheduler: Scheduler, first_tokens: list[float]
) -> None:
    instance = Instance(cost=Affine(step_s=1.0), num_blocks=1000)
    trace = Trace.from_columns(
        arrival=[0.0, 0.0], prompt_tokens=[100, 100], output_tokens=[3, 3], priority=[0, 1]
    )
    result = paceline.replay(trace, Cluster([instance]), Policy(name="limited", scheduler=scheduler))
    assert result.requests["first_token"].to_list() == first_tokens
