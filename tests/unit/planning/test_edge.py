"""The search for the highest passing rate, on curves made by hand."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.planning.edge import Crossing, Edge, highest_passing
from unit.planning.answering import answered


def searched(
    passes: Callable[[float], bool], *, start: float = 1.0, tolerance: float = 0.01
) -> tuple[Edge, list[float]]:
    return answered(highest_passing(start, start / 1024, start * 1024, tolerance), passes)


@given(
    edge=st.floats(2**-9, 2**9),
    start=st.floats(1e-3, 1e4),
    tolerance=st.sampled_from([1e-4, 0.003, 0.01, 0.1, 0.5]),
)
def test_the_edge_of_every_step_is_found_within_the_tolerance(
    edge: float, start: float, tolerance: float
) -> None:
    found, asked = searched(lambda rate: rate <= edge * start, start=start, tolerance=tolerance)
    assert found.passes is not None
    assert found.fails is not None
    assert found.passes <= edge * start < found.fails
    assert found.fails <= found.passes * (1 + tolerance)
    assert found.monotone
    assert found.crossings == (Crossing(found.passes, found.fails, passes_above=False),)
    assert len(asked) == len(set(asked)) == len(found.seen)


@pytest.mark.parametrize("edge", [1.0, 3.7, 700.0, 0.3, 0.002])
def test_a_step_costs_few_rates(edge: float) -> None:
    # Four ladders of four reach any edge; a factor of 2 is 1% after log5(100) = 3 rounds of four; ten probes.
    _, asked = searched(lambda rate: rate <= edge)
    assert len(asked) <= 16 + 12 + 10


def test_limits_are_reported_and_evaluated() -> None:
    above, asked = searched(lambda _: True)
    assert (above.passes, above.fails) == (1024.0, None)
    assert max(asked) == 1024.0
    below, asked = searched(lambda _: False)
    assert (below.passes, below.fails) == (None, 1 / 1024)
    assert min(asked) == 1 / 1024
    assert above.monotone
    assert below.monotone


def test_limits_that_are_no_power_of_two_are_evaluated_last_and_never_exceeded() -> None:
    found, asked = answered(highest_passing(5.0, 3.0, 7.0, 0.01), lambda rate: rate < 100)
    assert (found.passes, found.fails, asked) == (7.0, None, [5.0, 7.0])
    found, asked = answered(highest_passing(5.0, 3.0, 7.0, 0.01), lambda rate: rate < 6.2)
    assert found.fails is not None
    assert 6.1 < found.fails < 6.3
    assert min(asked) >= 3.0
    assert max(asked) <= 7.0
    found, _ = answered(highest_passing(5.0, 5.0, 5.0, 0.01), lambda _: False)
    assert (found.passes, found.fails) == (None, 5.0)


@given(edge=st.floats(0.01, 400.0))
def test_an_island_of_failures_below_the_edge_is_found_and_reported(edge: float) -> None:
    # The bracket ends at most 1% below the edge, so the probe 4% below that is 3.8 to 4.8% below the edge.
    def passes(rate: float) -> bool:
        return rate <= edge and not 0.95 * edge < rate <= 0.97 * edge

    found, _ = searched(passes)
    assert found.passes is not None
    assert found.fails is not None
    assert found.passes <= 0.95 * edge < found.fails <= found.passes * 1.01
    assert not found.monotone
    assert [crossing.passes_above for crossing in found.crossings] == [False, True, False]


@pytest.mark.parametrize("seed", range(40))
def test_a_noisy_curve_is_answered_on_the_low_side_and_flagged(seed: int) -> None:
    # The attainment falls by 0.1 over a tenth of the rate around 50, with noise of 0.02, fixed for each rate.
    def attainment(rate: float) -> float:
        noise = random.Random(f"{seed} {rate!r}").gauss(0, 0.02)
        return 0.9 - (rate / 50 - 1) + noise

    found, asked = searched(lambda rate: attainment(rate) >= 0.9, start=10.0)
    assert found.passes is not None
    assert found.fails is not None
    # Five deviations: ten percent of the rate to each side.
    assert 50 * 0.85 < found.passes < 50 * 1.10
    assert found.fails <= found.passes * 1.01
    assert all(attainment(rate) >= 0.9 for rate in asked if rate <= found.passes)
    assert attainment(found.fails) < 0.9
    pairs = itertools.pairwise(sorted(asked))
    crossings = sum((attainment(a) >= 0.9) != (attainment(b) >= 0.9) for a, b in pairs)
    assert len(found.crossings) == crossings
    assert found.monotone == (crossings == 1)


def test_most_noisy_curves_are_seen_to_be_noisy() -> None:
    def flagged(seed: int) -> bool:
        def passes(rate: float) -> bool:
            return (rate / 50 - 1) + random.Random(f"{seed} {rate!r}").gauss(0, 0.05) < 0

        return not searched(passes, start=10.0)[0].monotone

    # Of eight probes within 8% of the edge, with noise of 5%, all agree with the edge in few curves.
    assert sum(map(flagged, range(100))) > 80


def test_a_curve_without_order_is_left_after_few_rounds() -> None:
    coin = random.Random(7)
    found, asked = searched(lambda rate: coin.random() < 0.5)
    assert not found.monotone
    assert len(asked) < 200


def test_rates_inside_the_bracket_have_few_digits_so_that_a_printed_rate_can_be_replayed() -> None:
    found, asked = searched(lambda rate: rate <= 13.3731, start=0.7123456789)
    inside = [rate for rate in asked if float(f"{rate:.4g}") == rate]
    ladder = [0.7123456789 * 2**k for k in range(8)]
    assert set(asked) - set(inside) <= set(ladder)
    assert found.passes in inside


@given(edge=st.integers(0, 400), start=st.integers(1, 300), tolerance=st.sampled_from([1e-4, 0.01, 0.1]))
def test_the_edge_of_whole_numbers_is_found_between_two_of_them(
    edge: int, start: int, tolerance: float
) -> None:
    search = highest_passing(float(start), 1.0, 300.0, tolerance, whole=True)
    found, asked = answered(search, lambda amount: amount <= edge)
    assert all(amount.is_integer() and 1 <= amount <= 300 for amount in asked)
    if edge < 1:
        assert (found.passes, found.fails) == (None, 1.0)
    elif edge >= 300:
        assert (found.passes, found.fails) == (300.0, None)
    else:
        assert found.passes is not None
        assert found.fails is not None
        assert found.passes <= edge < found.fails
        assert found.fails - found.passes <= max(1.0, found.passes * tolerance)
