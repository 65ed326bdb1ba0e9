"""The order of intervals: against its definition, on random intervals."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paceline.trace.intervals import EVER, Intervals

Pairs = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8)), max_size=8)


@given(Pairs, st.integers(0, 30))
def test_before_are_those_that_had_ended_and_that_no_other_of_them_waited_for(
    pairs: list[tuple[int, int]], moment: int
) -> None:
    starts = [start for start, _ in pairs]
    ends = [start + length for start, length in pairs]
    intervals = Intervals(range(len(pairs)), starts, ends)
    for at in (moment, EVER):
        ended = [i for i in range(len(pairs)) if max(ends[i], starts[i] + 1) <= at]
        last = {i for i in ended if not any(max(ends[i], starts[i] + 1) <= starts[other] for other in ended)}
        assert set(intervals.before(at)) == last


@given(Pairs, st.integers(0, 30))
def test_begun_and_after_are_the_neighbours_of_a_moment(pairs: list[tuple[int, int]], moment: int) -> None:
    starts = [start for start, _ in pairs]
    intervals = Intervals(range(len(pairs)), starts, [start + length for start, length in pairs])
    begun, after = intervals.begun(moment), intervals.after(moment)
    earlier = [start for start in starts if start <= moment]
    later = [start for start in starts if start >= moment]
    assert (None if begun is None else starts[begun]) == max(earlier, default=None)
    assert (None if after is None else starts[after]) == min(later, default=None)


def test_an_end_that_is_rounded_past_the_start_that_waited_is_before_it() -> None:
    assert Intervals([0], [0], [1002], slack=2).before(1000) == [0]
    assert Intervals([0], [0], [1003], slack=2).before(1000) == []
