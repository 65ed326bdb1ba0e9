"""The spread of a column that is read in parts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.result import spreads
from paceline.result.spreads import Spreading, pairwise_sum
from paceline.result.summary import spread_of


@pytest.fixture(autouse=True)
def small_columns_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spreads, "_SMALL", 0)


def spread_in_parts(column: pl.Series, rows: int) -> dict[str, float | None]:
    spreading = Spreading()
    parts = [column[at : at + rows] for at in range(0, len(column), rows)]
    for part in parts:
        spreading.add(part)
    return spreading.figures(lambda: iter(parts))


@settings(max_examples=30, deadline=None)
@given(
    values=st.lists(
        st.none() | st.floats(0, 1e6) | st.sampled_from([0.0, 0.25, 0.1]), min_size=1, max_size=60
    ),
    rows=st.integers(1, 20),
)
def test_parts_have_the_spread_of_the_whole(values: list[float | None], rows: int) -> None:
    column = pl.Series("ttft", values, dtype=pl.Float64)
    assert spread_in_parts(column, rows) == spread_of(column)


@pytest.mark.parametrize("count", [65_536, 65_537, 200_003, 1_000_001])
def test_long_columns_have_the_same_bits(count: int) -> None:
    drawn = np.random.default_rng(count)
    for values in (drawn.lognormal(size=count), np.round(drawn.exponential(size=count), 1)):
        column = pl.select(
            pl.when(pl.Series(drawn.random(count) < 0.9)).then(pl.Series(values)).alias("e2e")
        ).to_series()
        assert spread_in_parts(column, 40_000) == spread_of(column)


def test_a_sum_is_numpys() -> None:
    values = np.random.default_rng(5).lognormal(size=300_001)
    at = 0

    def take(count: int) -> np.ndarray:  # type: ignore[type-arg]
        nonlocal at
        at += count
        return values[at - count : at]

    assert pairwise_sum(take, len(values)) == np.add.reduce(values)
