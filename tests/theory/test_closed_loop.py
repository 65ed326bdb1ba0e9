"""Closed loops with deterministic services, their asymptotic bounds, and Little's law for clients."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paceline import Concurrency, Trace, policies, replay
from paceline._clock import TICKS_PER_SECOND
from theory.closed_loop import CLUSTER, STEP_S, served


def ticks(seconds: float) -> int:
    return round(seconds * TICKS_PER_SECOND)


STEP = ticks(STEP_S)
CLIENTS = st.integers(1, 9)
SEATS = st.integers(1, 5)
SPANS = st.integers(1, 12)


def starts(clients: int, seats: int, service: int, think: int, turns: int) -> list[int]:
    """Return when each service starts, in steps, in order.

    With one length of service the requests leave in the order in which they came. So the nth waits for the
    think time after the service of the same client, `clients` before it, and for a seat, which the one
    `seats` before it leaves.
    """
    found: list[int] = []
    for n in range(clients * turns):
        ready = found[n - clients] + service + think if n >= clients else think
        free = found[n - seats] + service if n >= seats else 0
        found.append(max(ready, free))
    return found


@given(clients=CLIENTS, seats=SEATS, service=SPANS, think=SPANS)
def test_each_service_starts_as_the_recursion_says(
    clients: int, seats: int, service: int, think: int
) -> None:
    turns = 40
    thinks = np.full((clients, turns), think * STEP_S)
    tokens = np.full((clients, turns), service)
    requests = served(thinks, tokens, seats).requests
    scheduled = sorted(ticks(at) // STEP for at in requests["scheduled"].to_list())
    expected = starts(clients, seats, service, think, turns)
    assert scheduled == expected
    # The throughput is the smaller of the two asymptotes: clients that never wait, and seats that never idle.
    asymptote = min(Fraction(clients, service + think), Fraction(seats, service))
    later, last = len(expected) // 2, len(expected) - 1
    taken = expected[last] - expected[later]
    # Over so many requests the schedule differs from its rate by less than one cycle.
    assert abs((last - later) / asymptote - taken) <= service + think


@given(data=st.data(), clients=CLIENTS, seats=SEATS)
def test_the_time_of_each_client_is_that_of_its_answers_and_its_thoughts(
    data: st.DataObject, clients: int, seats: int
) -> None:
    turns = data.draw(st.integers(1, 12))
    drawn = st.lists(SPANS, min_size=clients * turns, max_size=clients * turns)
    thinks = np.array(data.draw(drawn)).reshape(clients, turns) * STEP_S
    tokens = np.array(data.draw(drawn)).reshape(clients, turns)
    result = served(thinks, tokens, seats)
    requests = result.requests
    arrival, finish = (
        np.array([ticks(at) for at in requests[name].to_list()], dtype=object)
        for name in ("arrival", "finish")
    )
    session = requests["session"].cast(int).to_numpy()
    for client in range(clients):
        own = session == client
        present = max(finish[own]) - min(arrival[own])
        thought = sum(ticks(one) for one in thinks[client, 1:])
        assert present == sum(finish[own] - arrival[own]) + thought
    # Little's law: clients at the server, integrated over time, are the times of their answers.
    (instance,) = result.stats.instances
    assert instance.running_ticks + instance.waiting_ticks == sum(finish - arrival)
    # No client is in two places, and a seat serves one request at a time.
    assert result.stats.end_ticks * min(clients, seats) >= instance.running_ticks


@given(
    most=st.integers(1, 6),
    tokens=st.lists(st.integers(1, 20), min_size=1, max_size=40),
    seats=SEATS,
)
def test_a_backlog_keeps_as_many_in_flight_as_it_may(most: int, tokens: list[int], seats: int) -> None:
    """Little's law under a limit: X R = M, on every path, up to the moment at which the last is sent."""
    rows = len(tokens)
    backlog = Trace.from_columns(arrival=[0.0] * rows, prompt_tokens=[1] * rows, output_tokens=tokens)
    result = replay(backlog, CLUSTER, policies.vllm(max_num_seqs=seats), clients=Concurrency(most))
    sent, finish = ([ticks(at) for at in result.requests[name].to_list()] for name in ("arrival", "finish"))
    last = max(sent)
    spent = sum(min(end, last) - start for start, end in zip(sent, finish, strict=True))
    assert spent == min(most, rows) * last
