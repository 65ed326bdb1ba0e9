"""Rates over time against their integrals, and counts against closed forms."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from paceline.errors import ConfigError, TraceError
from paceline.synthesis import (
    BenchmarkRamp,
    Diurnal,
    Gamma,
    OnOff,
    Poisson,
    Ramp,
    Regular,
    Steps,
    synthesize,
)
from paceline.trace import Trace
from paceline.trace.shapes import RateShape

DRAWS = 200


def counts(shape: RateShape, edges: list[float], most: int) -> np.ndarray:
    """Return how many arrivals fall between the edges, a row for each of many seeds."""
    found = []
    for seed in range(DRAWS):
        times = shape.times(most, 1.0, seed)  # type: ignore[attr-defined]
        assert times[-1] > edges[-1], "enough are drawn"
        found.append(np.histogram(times, bins=edges)[0])
    return np.array(found)


@pytest.mark.parametrize(
    ("shape", "edges", "expected"),
    [
        # Integrals of the rate over each interval, by hand: of a line, of an exponential, of constants.
        (Ramp(2, 10, over_s=40), [0, 10, 20, 40, 50], [30, 50, 160, 100]),
        (Ramp(10, 2, over_s=40), [0, 20, 40, 60], [160, 80, 40]),
        (Ramp(0, 8, over_s=20), [0, 10, 20], [20, 60]),
        (
            Ramp(1, 16, over_s=40, shape="exponential"),
            [0, 10, 20, 30, 40, 45],
            [*(10 / math.log(2) * 2**k for k in range(4)), 80],
        ),
        (Steps(((0, 5), (10, 0), (20, 20))), [0, 10, 20, 25], [50, 0, 100]),
        (Steps(((0, 4), (5, 1)), repeat_s=10), [0, 5, 10, 15, 20], [20, 5, 20, 5]),
        (
            Diurnal(4, swing=0.5, period_s=80),
            [0, 40, 80],
            [160 + 4 * 0.5 * 80 / math.pi, 160 - 4 * 0.5 * 80 / math.pi],
        ),
        (
            Diurnal(4, swing=1.0, period_s=80, phase_s=20),
            [0, 20, 60],
            [80 + 4 * 80 / (2 * math.pi), 160 - 4 * 80 / math.pi],
        ),
    ],
)
def test_counts_of_a_moved_poisson_process_are_poisson_of_the_integral(
    shape: RateShape, edges: list[float], expected: list[float]
) -> None:
    found = counts(shape, edges, most=int(sum(expected) * 1.5) + 60)
    for column, mean in zip(found.T, expected, strict=True):
        # The mean of n counts has the standard error sqrt(mean / n); the variance over the mean of a Poisson
        # count is 1, with a standard error of sqrt(2 / n) and a little.
        assert column.mean() == pytest.approx(mean, abs=4 * math.sqrt(mean / DRAWS) + 1e-9)
        if mean:
            assert column.var() / column.mean() == pytest.approx(1, abs=4 * math.sqrt(2.2 / DRAWS))
    for one, other in pairwise(range(len(expected))):
        if expected[one] and expected[other]:
            assert abs(np.corrcoef(found[:, one], found[:, other])[0, 1]) < 4 / math.sqrt(DRAWS)


def test_on_off_counts_have_the_mean_and_the_dispersion_of_an_mmpp() -> None:
    shape = OnOff(20, 2, high_s=1.0, low_s=3.0)
    span = 200.0
    found = counts(shape, [0, span], most=3_000)[:, 0]
    assert shape.mean == (20 * 1 + 2 * 3) / 4
    # Fischer and Meier-Hellstern: with x and y the rates at which the states of rates a and b are left,
    # Var N(t) = m t + e (t - (1 - exp(-(x + y) t)) / (x + y)), e = 2 (a - b)² x y / (x + y)³.
    x, y = 1 / 1.0, 1 / 3.0
    excess = 2 * (20 - 2) ** 2 * x * y / (x + y) ** 3
    variance = shape.mean * span + excess * (span - (1 - math.exp(-(x + y) * span)) / (x + y))
    assert found.mean() == pytest.approx(shape.mean * span, abs=4 * math.sqrt(variance / DRAWS))
    assert found.var() == pytest.approx(variance, rel=4 * math.sqrt(2.5 / DRAWS))


def test_a_rate_multiplies_a_shape_and_an_infinite_one_puts_all_at_zero() -> None:
    shape = Ramp(1, 3, over_s=10, process=Regular())
    slow, fast = shape.times(40, 1.0, 1), shape.times(40, 4.0, 1)
    assert fast.tolist() == shape.moments(np.arange(40) / 4.0).tolist()
    assert slow.tolist() == shape.moments(np.arange(40.0)).tolist()
    assert set(shape.times(9, math.inf, 1).tolist()) == {0.0}


def test_a_shape_moves_any_process() -> None:
    regular = Ramp(2, 2, over_s=1, process=Regular()).times(5, 1.0, seed=1)
    assert regular.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    bursty = Steps(((0, 3),), process=Gamma(cv=2.0)).times(1_000, 1.0, seed=3)
    assert bursty.tolist() == pytest.approx((Gamma(cv=2.0).times(1_000, 1.0, seed=3) / 3).tolist())


@pytest.mark.parametrize("shape", [Ramp(1, 9, over_s=5), OnOff(9, 0, high_s=1, low_s=2)])
def test_more_requests_continue_the_same_arrivals(shape: RateShape) -> None:
    short, long = (shape.times(count, 1.0, 4) for count in (100, 5_000))  # type: ignore[attr-defined]
    assert short.tolist() == long[:100].tolist()
    assert (np.diff(long) >= 0).all()


def test_nothing_arrives_in_a_pause() -> None:
    times = Steps(((0, 50), (1, 0), (5, 50))).times(200, 1.0, seed=2)
    assert not ((times > 1) & (times < 5)).any()
    silent = OnOff(50, 0, high_s=0.5, low_s=5)
    assert np.diff(silent.times(500, 1.0, seed=2)).max() > 1.0


@pytest.mark.parametrize(("shape", "seed"), [("linear", 3), ("exponential", 8)])
def test_a_benchmark_ramp_draws_as_the_client_does(shape: str, seed: int) -> None:
    state = np.random.get_state()
    try:
        np.random.seed(seed)
        sent, at = [], 0.0
        for index in range(30):
            done = index / 29
            rate = 2 + (20 - 2) * done if shape == "linear" else 2 * (20 / 2) ** done
            at += np.random.gamma(shape=0.7, scale=1.0 / (rate * 0.7))
            sent.append(at)
    finally:
        np.random.set_state(state)
    ramp = BenchmarkRamp(2, 20, shape=shape, burstiness=0.7, seed=seed)  # type: ignore[arg-type]
    assert ramp.times(30, 1.0, seed=99).tolist() == pytest.approx(sent, rel=1e-12)
    assert len(ramp.times(1, 1.0, seed=99)) == 1


def test_a_synthesis_takes_the_rates_of_a_shape_unless_a_rate_multiplies_them() -> None:
    ramp = Ramp(10, 10, over_s=1)
    assert synthesize("azure-conv", requests=4_000, seed=1, arrivals=ramp).rate_per_s == pytest.approx(
        10, rel=0.07
    )
    twice = synthesize("azure-conv", requests=4_000, seed=1, arrivals=ramp, rate=2.0)
    assert twice.rate_per_s == pytest.approx(20, rel=0.07)


def test_a_reshaped_trace_keeps_its_order_its_tokens_and_its_bursts() -> None:
    drawn = synthesize("azure-conv", requests=2_000, rate=4.0, seed=2, arrivals=Poisson())
    moved = drawn.reshaped(Ramp(1, 19, over_s=100))
    lengths = ["prompt_tokens", "output_tokens"]
    assert moved.frame.select(lengths).equals(drawn.frame.select(lengths))
    times = moved.frame["arrival"].to_numpy()
    assert (np.diff(times) >= 0).all()
    # Expected until t: t + 18 t² / 200, 122.5 up to 30 s and 1,000 up to 100 s, in a Poisson trace.
    assert (times < 100).sum() == pytest.approx(1_000, abs=4 * math.sqrt(1_000))
    assert (times < 30).sum() == pytest.approx(30 + 18 * 900 / 200, abs=4 * math.sqrt(111))


def test_turns_that_follow_an_answer_do_not_count_in_a_reshaped_trace() -> None:
    trace = Trace.from_columns(
        arrival=[0, 1, 1, 2, 9],
        prompt_tokens=[1] * 5,
        output_tokens=[1] * 5,
        session=["a", "b", "a", "c", "c"],
        think_time=[None, None, 1.0, None, 7.0],
    )
    moved = trace.reshaped(Steps(((0, 10),)))
    assert moved.frame["arrival"].to_list() == [0.0, 0.1, 0.1, 0.2, 0.9]
    assert moved.frame["session"].to_list() == ["a", "b", "a", "c", "c"]


def test_a_trace_at_one_instant_has_no_rate_to_reshape() -> None:
    trace = Trace.from_columns(arrival=[0, 0], prompt_tokens=[1, 1], output_tokens=[1, 1])
    with pytest.raises(TraceError, match="all requests arrive at one instant"):
        trace.reshaped(Ramp(1, 2, over_s=1))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Ramp(-1, 2, over_s=1), "start of a Ramp must be a finite number at least 0, was -1"),
        (lambda: Ramp(0, 2, over_s=1, shape="exponential"), "start of a Ramp .* above 0, was 0"),
        (lambda: Ramp(1, 0, over_s=1), "end of a Ramp must be a finite number above 0, was 0"),
        (lambda: Ramp(1, 2, over_s=0), "over_s of a Ramp"),
        (lambda: Steps(()), "stages must start at 0 s and rise"),
        (lambda: Steps(((1, 2),)), "stages must start at 0 s and rise"),
        (lambda: Steps(((0, 2), (0, 3))), "stages must start at 0 s and rise"),
        (lambda: Steps(((0, -2),)), "rates of stages must be finite and at least 0"),
        (lambda: Steps(((0, 2), (3, 0))), "the last rate of stages must be above 0"),
        (lambda: Steps(((0, 2), (3, 0)), repeat_s=2), "repeat_s must be after the last stage"),
        (lambda: Steps(((0, 0),), repeat_s=2), "some rate of stages must be above 0"),
        (lambda: Diurnal(0, swing=1), "mean of a Diurnal"),
        (lambda: Diurnal(1, swing=1.5), "swing of a Diurnal must be from 0 to 1, was 1.5"),
        (lambda: Diurnal(1, swing=1, phase_s=math.inf), "phase_s of a Diurnal"),
        (lambda: OnOff(1, 2, high_s=1, low_s=1), "low of an OnOff must be from 0 to high, which is 1, was 2"),
        (lambda: OnOff(1, 0, high_s=0, low_s=1), "high_s of an OnOff"),
        (lambda: BenchmarkRamp(0, 2), "start of a BenchmarkRamp must be above 0, was 0"),
        (lambda: BenchmarkRamp(3, 2), "start of a BenchmarkRamp must be at most end, which is 2, was 3"),
        (lambda: BenchmarkRamp(1, 2, seed=-1), "seed must be a whole number"),
    ],
)
def test_a_shape_that_makes_no_sense_is_refused(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(ConfigError, match=message):
        build()
