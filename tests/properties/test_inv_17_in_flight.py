"""INV-17: a limit of what is in flight is kept, and nothing waits beside a free slot."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from paceline import Concurrency, ConfigError, Patience
from paceline.cli.waiting import ClientOptions
from paceline.testing import check
from properties.closed_loads import HOPELESS, closed_loads, limits, replayed, waits_for

Load = tuple[dict[str, list[Any]], Concurrency | None]
ROUNDING_S = 1e-9


def spans(columns: dict[str, list[Any]], result: Any, of: str) -> dict[int, tuple[float, float]]:
    """Return when each request was in flight, or each session by its first row."""
    first = list(range(len(columns["arrival"])))
    if of == "sessions":
        latest: dict[str, int] = {}
        for row, waits in enumerate(waits_for(columns)):
            name = columns["session"][row]
            for other in [one for one, _ in waits] + ([latest[name]] if name in latest else []):
                low, high = sorted((first[row], first[other]))
                first = [low if one == high else one for one in first]
            if name is not None:
                latest[name] = row
    found: dict[int, tuple[float, float]] = {}
    for row, (sent, finish, status) in enumerate(
        result.requests.select("arrival", "finish", "status").iter_rows()
    ):
        if status != "not_arrived":
            start, stop = found.get(first[row], (sent, 0.0))
            found[first[row]] = (min(start, sent), max(stop, sent if finish is None else finish))
    return found


@given(load=closed_loads())
def test_at_most_so_many_are_in_flight_at_every_moment(load: Load) -> None:
    columns, limit = load
    assume(limit is not None)
    assert limit is not None
    result = replayed(columns, limit)
    check(result)
    in_flight = spans(columns, result, limit.of)
    for moment, _ in in_flight.values():
        # The gap after an end counts as well.
        count = sum(start <= moment < stop + limit.gap_s - ROUNDING_S for start, stop in in_flight.values())
        assert count <= limit.most


@given(load=closed_loads())
def test_a_request_that_waits_for_no_answer_waits_only_while_all_slots_are_taken(load: Load) -> None:
    columns, limit = load
    assume(limit is not None)
    assert limit is not None
    result = replayed(columns, limit)
    in_flight = spans(columns, result, limit.of)
    sent = result.requests["arrival"].to_list()
    for row, waits in enumerate(waits_for(columns)):
        ready = columns["arrival"][row]
        if waits or sent[row] <= ready + ROUNDING_S:
            continue
        ends = [stop + limit.gap_s for _, stop in in_flight.values()]
        for moment in [ready, *(end for end in ends if ready < end < sent[row] - ROUNDING_S)]:
            count = sum(
                start <= moment + ROUNDING_S and moment < stop + limit.gap_s - ROUNDING_S
                for start, stop in in_flight.values()
            )
            assert count >= limit.most, (row, moment)


@given(load=closed_loads(), most=st.integers(1, 4))
def test_one_request_at_a_time_is_served_alone(load: Load, most: int) -> None:
    """With one request in flight each is served as if there were no other: as soon as it is sent."""
    columns, _ = load
    result = replayed(columns, Concurrency(1))
    served = result.requests.filter(result.requests["status"] == "finished")
    assert served["queueing"].max() in (None, 0.0)
    # As many clients as there are requests limit nothing.
    many = replayed(columns, Concurrency(len(columns["arrival"]) + most)).requests
    assert many.equals(replayed(columns, None).requests)


@given(load=closed_loads())
def test_all_that_can_be_held_is_served(load: Load) -> None:
    columns, limit = load
    columns = {**columns, "prompt_tokens": [min(one, 90) for one in columns["prompt_tokens"]]}
    assert HOPELESS not in columns["prompt_tokens"]
    totals = replayed(columns, limit).totals()
    assert totals.finished == len(columns["arrival"])


def test_the_command_line_says_for_how_long_clients_wait() -> None:
    patience = Patience(timeout_s=30.0, retries=2, backoff_s=0.25)
    given = {"timeout": "30s", "retries": 2, "backoff": "250ms"}
    assert ClientOptions(**given).clients() == Concurrency(patience=patience)
    assert ClientOptions(concurrency=8, **given).clients() == Concurrency(8, patience=patience)
    with pytest.raises(ConfigError, match="--backoff needs --retries"):
        ClientOptions(backoff="1s").clients()


@given(limit=limits())
def test_the_command_line_says_what_python_says(limit: Concurrency) -> None:
    name = "concurrency" if limit.of == "requests" else "concurrent_sessions"
    options = ClientOptions(**{name: limit.most}, client_gap=f"{limit.gap_s * 1000:g}ms")
    assert options.clients() == limit
