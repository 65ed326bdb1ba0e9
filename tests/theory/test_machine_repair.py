"""Few clients that think, and few servers: the machine-repair model M/M/N//K, against its closed form.

K clients think for an exponential time of mean Z, and each is then served for one of mean S by one of N
servers. In equilibrium n of them are at the servers with probability p_n, proportional to

    C(K, n) (S/Z)^n             for n <= N,
    C(K, n) (S/Z)^n n! / (N! N^(n - N))  above.

So the throughput is X = sum of p_n min(n, N) / S, and the mean response time K/X - Z. Source: Kleinrock,
Queueing Systems I (1975), section 3.8 (M/M/m//M, finite population).
"""

from __future__ import annotations

from math import comb, factorial, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from theory.closed_loop import STEP_S, served

SEEDS = 12
STUDENT_T = 4.437
"""The 0.9995 quantile at 11 degrees of freedom: a two-sided interval of 99.9%."""
SERVICE_S = 1.0  # 1,000 steps: that a service begins and ends with a step adds about one, 0.1%
TURNS = 2_500


def in_equilibrium(clients: int, servers: int, think_s: float) -> tuple[float, float]:
    """Return the throughput and the mean response time of the closed form."""
    load = SERVICE_S / think_s
    weights = [
        comb(clients, n)
        * load**n
        * (1.0 if n <= servers else factorial(n) / (factorial(servers) * servers ** (n - servers)))
        for n in range(clients + 1)
    ]
    busy = sum(weight * min(n, servers) for n, weight in enumerate(weights)) / sum(weights)
    throughput = busy / SERVICE_S
    return throughput, clients / throughput - think_s


def measured(clients: int, servers: int, think_s: float, seed: int) -> tuple[float, float]:
    """Return the throughput and the mean response time of one replay, without its start and its end."""
    rng = np.random.default_rng(seed)
    thinks = rng.exponential(think_s, (clients, TURNS))
    tokens = np.maximum(1, np.rint(rng.exponential(SERVICE_S / STEP_S, (clients, TURNS)))).astype(np.int64)
    throughput, _ = in_equilibrium(clients, servers, think_s)
    end = 0.75 * TURNS * clients / throughput
    start = end / 10
    requests = served(thinks, tokens, servers, until=end).requests
    left = requests.filter(requests["status"] == "not_arrived")["session"].n_unique()
    assert left == clients, "each client still has requests to send"
    finish, response = requests["finish"].to_numpy(), requests["e2e"].to_numpy()
    counted = (finish >= start) & (finish < end)
    return float(counted.sum() / (end - start)), float(response[counted].mean())


def interval(samples: NDArray[np.float64]) -> tuple[float, float]:
    """Return a 99.9% confidence interval of the mean of independent samples."""
    half = STUDENT_T * samples.std(ddof=1) / sqrt(len(samples))
    return float(samples.mean() - half), float(samples.mean() + half)


@pytest.mark.parametrize(
    ("clients", "servers", "think_s"), [(5, 1, 3.0), (10, 3, 2.0), (12, 5, 1.0)], ids=["1", "3", "5"]
)
def test_throughput_and_response_are_those_of_the_closed_form(
    clients: int, servers: int, think_s: float
) -> None:
    samples = np.array([measured(clients, servers, think_s, seed) for seed in range(SEEDS)])
    expected = in_equilibrium(clients, servers, think_s)
    for name, found, wanted in zip(("throughput", "response"), samples.T, expected, strict=True):
        low, high = interval(found)
        assert low <= wanted <= high, (name, low, wanted, high)
        assert high - low < 0.05 * wanted, (name, low, high)
    # The intervals tell this from a server more, and from clients that do not think as long.
    for other in ((clients, servers + 1, think_s), (clients, servers, 1.3 * think_s)):
        wanted, _ = in_equilibrium(*other)
        low, high = interval(samples[:, 0])
        assert not low <= wanted <= high, (other, low, wanted, high)


def test_the_closed_form_by_hand() -> None:
    # One server, two clients, Z = S: p = 1, 2, 2 over 5, so that it is busy for 4/5 of the time.
    assert in_equilibrium(2, 1, 1.0) == pytest.approx((0.8, 2 / 0.8 - 1.0))
    # As many servers as clients: none waits, and the response is the service.
    assert in_equilibrium(4, 4, 3.0) == pytest.approx((1.0, 1.0))
