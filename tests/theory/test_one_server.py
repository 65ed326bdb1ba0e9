"""An instance that serves one request at a time is a queue with one server: closed forms are known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from differential.engine import _instance as as_wire
from differential.strategies import Case
from paceline import _native as native
from paceline.testing.reference import AffineCost, VllmV1Config

TICKS = 10**12
STEP = TICKS // 100  # each step takes 10 ms, independent of its batch

BATCHES = 40
STUDENT_T = 3.566  # the 0.9995 quantile at 38 degrees of freedom: a two-sided interval of 99.9%

ONE_AT_A_TIME = VllmV1Config(block_size=16, num_blocks=1001, max_num_batched_tokens=512, max_num_seqs=1)

Times = NDArray[np.int64]


def poisson_arrivals(seed: int, count: int, rate: float) -> Times:
    """Return the ticks of a Poisson process with ``rate`` arrivals a second."""
    gaps = np.random.default_rng(seed).exponential(TICKS / rate, count)
    return np.rint(np.cumsum(gaps)).astype(np.int64)


def waits(arrivals: Times, output_tokens: Times) -> Times:
    """Return how long each request waits for its first step, in the engine."""
    case = Case(requests=[], instances=[(ONE_AT_A_TIME, AffineCost(step=STEP))])
    columns = {
        "arrival_ticks": arrivals.astype(np.uint64),
        "prompt_tokens": np.full(len(arrivals), 100, dtype=np.uint32),
        "output_tokens": output_tokens.astype(np.uint32),
    }
    outcome = native.run([as_wire(case, 0)], columns, routing=case.routing, leap=True)
    return outcome.columns["scheduled"].astype(np.int64) - arrivals


def interval(samples: Times) -> tuple[float, float]:
    """Return a 99.9% confidence interval for the mean in seconds, by the method of batch means.

    Successive waits are correlated; the means of long batches of them hardly are. The first
    batch is left out, because the queue starts empty.
    """
    means = samples[: len(samples) // BATCHES * BATCHES].reshape(BATCHES, -1).mean(axis=1)[1:] / TICKS
    half = STUDENT_T * means.std(ddof=1) / np.sqrt(len(means))
    return float(means.mean() - half), float(means.mean() + half)


@pytest.mark.parametrize("utilization", [0.3, 0.6, 0.8])
def test_mean_wait_is_that_of_an_m_d_1_queue(utilization: float) -> None:
    service = STEP / TICKS
    arrivals = poisson_arrivals(seed=5, count=200_000, rate=utilization / service)
    low, high = interval(waits(arrivals, np.ones(len(arrivals), dtype=np.int64)))
    expected = utilization * service / (2 * (1 - utilization))
    assert low <= expected <= high
    assert high - low < 0.15 * expected


def test_mean_wait_follows_pollaczek_and_khinchine() -> None:
    """Outputs of 1 or 9 tokens: a service takes 1 or 9 steps, and the mean depends on its second moment."""
    count, utilization = 200_000, 0.6
    output_tokens = np.where(np.random.default_rng(6).random(count) < 0.75, 1, 9)
    mean, second = 0.75 * 1 + 0.25 * 9, 0.75 * 1 + 0.25 * 81
    rate = utilization / (mean * STEP / TICKS)
    low, high = interval(waits(poisson_arrivals(seed=7, count=count, rate=rate), output_tokens))
    expected = rate * second * (STEP / TICKS) ** 2 / (2 * (1 - utilization))
    assert low <= expected <= high
    assert high - low < 0.15 * expected


def test_every_wait_follows_lindleys_recursion() -> None:
    """A request waits as long as the one before it waited and was served, less the time between arrivals."""
    rng = np.random.default_rng(8)
    arrivals = poisson_arrivals(seed=9, count=5_000, rate=30.0)
    output_tokens = rng.integers(1, 6, len(arrivals))
    expected = np.zeros(len(arrivals), dtype=np.int64)
    for i in range(1, len(arrivals)):
        left = expected[i - 1] + output_tokens[i - 1] * STEP - (arrivals[i] - arrivals[i - 1])
        expected[i] = max(left, 0)
    assert np.array_equal(waits(arrivals, output_tokens), expected)
    assert (expected > 0).any()
