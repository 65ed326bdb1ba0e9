"""INV-11: a sketch keeps its word."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import _core

GAPS = st.lists(st.integers(0, 10**6) | st.integers(0, 10**15), max_size=60)


def sketch_of(gaps: list[int]) -> _core.Sketch:
    sketch = _core.Sketch()
    for gap in gaps:
        sketch.add(gap, 1)
    return sketch


@given(gaps=GAPS.filter(bool))
def test_count_sum_extremes_and_variance_are_those_of_the_values(gaps: list[int]) -> None:
    sketch = sketch_of(gaps)
    mean = Fraction(sum(gaps), len(gaps))
    variance = float(sum((gap - mean) ** 2 for gap in gaps) / len(gaps) / 10**24)
    assert (sketch.count, sketch.sum_ticks) == (len(gaps), sum(gaps))
    assert (sketch.min_ticks, sketch.max_ticks) == (min(gaps), max(gaps))
    assert sketch.variance == pytest.approx(variance, rel=1e-9, abs=1e-24)


@given(gaps=GAPS.filter(bool), q=st.floats(0, 1))
def test_a_quantile_is_within_the_stated_error_of_the_value_at_its_rank(gaps: list[int], q: float) -> None:
    sketch = sketch_of(gaps)
    assert sketch.relative_error == 1 / 256
    exact = sorted(gaps)[max(0, math.ceil(q * len(gaps)) - 1)]
    found = sketch.quantile_s(q)
    assert found is not None
    assert abs(found * 10**12 - exact) <= sketch.relative_error * exact * (1 + 1e-9)


@given(left=GAPS, right=GAPS)
def test_merging_gives_the_sketch_of_the_whole_in_either_order(left: list[int], right: list[int]) -> None:
    whole = sketch_of(left + right)
    for one, other in ((left, right), (right, left)):
        merged = sketch_of(one)
        merged.merge(sketch_of(other))
        assert merged.to_json() == whole.to_json()


@given(gaps=GAPS)
def test_a_sketch_survives_json(gaps: list[int]) -> None:
    sketch = sketch_of(gaps)
    assert _core.Sketch.from_json(sketch.to_json()) == sketch
