"""The search for the smallest passing size, on sizes made by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.planning.sizes import Counts, Smallest, smallest_passing
from unit.planning.answering import answered


def divided(last: int) -> list[list[Counts]]:
    """Return the divisions of 2 to `last` instances into two pools."""
    return [[(first, size - first) for first in range(1, size)] for size in range(2, last + 1)]


@given(last=st.integers(1, 80), smallest=st.integers(1, 90))
def test_the_smallest_of_sizes_without_options_is_found(last: int, smallest: int) -> None:
    options: list[list[Counts]] = [[(size,)] for size in range(1, last + 1)]
    found, asked = answered(smallest_passing(options), lambda each: (each[0] >= smallest, 0.0))
    assert len(asked) == len(set(asked))
    if smallest > last:
        assert found.size is None
        assert found.seen[last - 1] is False
        return
    assert found.size == smallest - 1
    assert found.monotone
    # The two below were evaluated, and fail.
    assert [found.seen[size] for size in (found.size - 1, found.size - 2) if size >= 0] == [False] * min(
        2, found.size
    )


@given(
    last=st.integers(2, 24), prefill=st.integers(1, 20), decode=st.integers(1, 20), tilt=st.floats(0.1, 10)
)
def test_the_smallest_division_is_that_of_brute_force(
    last: int, prefill: int, decode: int, tilt: float
) -> None:
    # A division passes with enough of both: the answer is their sum, and one division of it passes.
    def verdict(each: Counts) -> tuple[bool, float]:
        margin = min(each[0] - prefill, tilt * (each[1] - decode))
        return margin >= 0, margin

    options = divided(last)
    found, asked = answered(smallest_passing(options), verdict)
    brute = next(
        (index for index, size in enumerate(options) if any(verdict(each)[0] for each in size)), None
    )
    assert found.size == brute
    assert len(asked) == len(set(asked))
    if brute is None:
        assert set(options[-1]) <= set(asked)
    else:
        assert set(options[brute]) <= set(asked), "all divisions of the answer are compared"
        for below in (brute - 1, brute - 2):
            assert below < 0 or set(options[below]) <= set(asked), "a size fails after all its divisions"


def test_large_sizes_that_pass_cost_few_replays() -> None:
    _, asked = answered(smallest_passing(divided(64)), lambda each: (min(each[0] / 3, each[1]) >= 4, 0.0))
    # 16 instances pass as 12:4. All divisions of the 16, 15 and 14 are 42; there are 2,016 in all.
    assert len(asked) < 150


@pytest.mark.parametrize(("hole", "monotone"), [(7, False), (6, True)])
def test_a_larger_size_that_fails_is_reported(hole: int, monotone: bool) -> None:
    # Sizes 6 and more pass, but 7 does not: the size above the answer is evaluated.
    options: list[list[Counts]] = [[(size,)] for size in range(1, 21)]
    smallest = 6 if hole != 6 else 7
    found, _ = answered(smallest_passing(options), lambda each: (each[0] >= 6 and each[0] != hole, 0.0))
    assert found.size == smallest - 1
    assert found.monotone == monotone


def test_a_smaller_size_that_passes_below_one_that_fails_is_the_answer() -> None:
    # 9 passes, 10 does not, 11 and more do. The search comes to 11, and looks two sizes below it.
    options: list[list[Counts]] = [[(size,)] for size in range(1, 21)]
    found, _ = answered(smallest_passing(options), lambda each: (each[0] >= 9 and each[0] != 10, 0.0))
    assert found == Smallest(8, found.seen)
    assert not found.monotone
