"""The native spread of latencies against numpy, over moments, gaps and rows that are left out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from paceline import _core
from paceline._clock import TICKS_PER_SECOND
from paceline.result.outcome import NEVER

SHARES = [0.5, 0.9, 0.99, 0.0, 1.0]
Ticks = NDArray[np.uint64]

moments = st.one_of(st.just(NEVER), st.integers(0, 50 * TICKS_PER_SECOND))
rows = st.tuples(moments, moments, st.integers(1, 5), st.booleans())


def seconds(starts: Ticks, ends: Ticks, tokens: NDArray[np.uint32], counted: NDArray[np.bool_]) -> object:
    """Return the latencies by gap as numpy has them."""
    there = (starts != NEVER) & (ends != NEVER) & (tokens > 1) & counted
    return (ends - starts)[there] / TICKS_PER_SECOND / (tokens[there] - 1)


@given(st.lists(rows, max_size=40), st.floats(0, 50))
def test_it_is_numpys(given_rows: list[tuple[int, int, int, bool]], bound: float) -> None:
    # An end is not before its start.
    ordered = [(min(a, b), max(a, b), tokens, counted) for a, b, tokens, counted in given_rows]
    columns = list(zip(*ordered, strict=True)) or [(), (), (), ()]
    starts, ends = (np.array(column, dtype=np.uint64) for column in columns[:2])
    tokens, counted = np.array(columns[2], dtype=np.uint32), np.array(columns[3], dtype=np.bool_)
    values = np.asarray(seconds(starts, ends, tokens, counted))
    latency = {"starts": starts, "ends": ends, "tokens": tokens, "bound": bound}
    (found,), within = _core.measure([latency], SHARES, candidates=counted, rows=counted)
    assert within == counted.sum() - (values > bound).sum()
    if values.size == 0:
        assert found is None
        return
    assert found is not None
    number, mean, most, quantiles = found
    assert (number, most) == (values.size, values.max())
    assert mean == pytest.approx(values.mean())
    assert quantiles == pytest.approx(np.quantile(values, SHARES))


def test_columns_that_do_not_belong_together_are_refused() -> None:
    ends, counted = np.zeros(3, dtype=np.uint64), np.ones(3, dtype=np.bool_)
    with pytest.raises(ValueError, match="starts must have an entry for each of 3 requests, had 2"):
        _core.measure([{"ends": ends, "starts": ends[:2]}], SHARES, candidates=counted)
    with pytest.raises(ValueError, match="rows must have an entry for each of 3 requests, had 1"):
        _core.measure([{"ends": ends}], SHARES, candidates=counted, rows=counted[:1])
    with pytest.raises(ValueError, match=r"a share must be 0 to 1, was 1\.5"):
        _core.measure([{"ends": ends}], [1.5], candidates=counted)
    with pytest.raises(TypeError, match="contiguous"):
        _core.measure([{"ends": np.zeros(6, dtype=np.uint64)[::2]}], SHARES, candidates=counted)
