"""Clients that wait for answers: the engine, leaping and stepping, against the step-by-step reference."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from differential import wire
from differential.clients import closed
from differential.counters import carried, carried_by, counters_of
from differential.policies import WireCase, policies
from differential.test_policies import (
    BOTH,
    reference,
    rows_of_engine,
    rows_of_reference,
)
from differential.test_policies import decisions as decisions_of
from paceline import _core
from paceline.errors import NoProgressError
from paceline.testing.reference.policy_sim import Outcome

NOT_ARRIVED = 3


@st.composite
def loads(draw: st.DrawFn, *, moves: bool = True) -> WireCase:
    """Draw a case of any policy, whose requests clients send."""
    case = draw(policies(moves=moves))
    requests, limit = draw(closed(case.requests))
    until = draw(st.none() | st.none() | st.integers(0, 800))
    return WireCase(requests=requests, config={**case.config, "clients": limit, "until": until})


def engine(case: WireCase, *, leap: bool) -> _core.Outcome:
    config = {**case.config, "leap": leap, "record_decisions": True}
    columns = wire.columns(case.requests)
    columns["session"] = wire.sessions(case.requests)
    return _core.replay(msgspec.json.encode(config), columns, None)


def sent_by_engine(outcome: _core.Outcome, case: WireCase) -> list[int | None]:
    """Return when each request was sent; None where it was not."""
    column = outcome.columns["arrival"].tolist()
    if not column:
        # No request waits for another: the arrivals are the trace's.
        column = [request.arrival for request in case.requests]
    came = outcome.columns["status"].tolist()
    return [None if status == NOT_ARRIVED else at for at, status in zip(column, came, strict=True)]


def agree(case: WireCase, expected: Outcome) -> None:
    sent = [
        None if expected.status(row) == "not arrived" else request.spec.arrival
        for row, request in enumerate(expected.requests)
    ]
    wanted = rows_of_reference(expected)
    for leap in BOTH:
        outcome = engine(case, leap=leap)
        assert sent_by_engine(outcome, case) == sent
        assert rows_of_engine(outcome, wanted) == wanted
        assert json.loads(outcome.flips) == [list(change) for change in expected.flips]
        stats = json.loads(outcome.stats)
        assert stats["end_ticks"] == expected.end
        assert carried(stats) == carried_by(expected)
        for index, (found, replica) in enumerate(zip(stats["instances"], expected.replicas, strict=True)):
            counted = counters_of(replica)
            assert {name: found[name] for name in counted} == counted
            steps = decisions_of(outcome, index)
            # A step that the end of time cuts off may be in either log, in both, or in none.
            whole = min(len(steps), len(replica.steps)) if case.config["until"] is not None else None
            assert steps[:whole] == replica.steps[:whole]
            assert abs(len(steps) - len(replica.steps)) <= (0 if whole is None else 1)


@given(case=loads())
def test_requests_are_sent_and_served_as_the_reference_does(case: WireCase) -> None:
    agree(case, reference(case))


@given(case=loads(moves=False))
def test_without_moves_they_are_as_well(case: WireCase) -> None:
    agree(case, reference(case))


def seen(case: WireCase) -> set[str]:
    """Return what clients did in a replay by the engine, which sends requests as the reference does."""
    sent = sent_by_engine(engine(case, leap=True), case)
    found = set()
    if case.config["until"] is None and None in sent:
        found.add("never sent")
    came = [(row, at) for row, at in enumerate(sent) if at is not None]
    if any(at != case.requests[row].arrival for row, at in came):
        found.add("sent at other moments")
    if sorted(came, key=lambda each: each[1]) != came:
        found.add("sent in another order")
    for name, other in _without(case.config["clients"]):
        changed = replace(case, config={**case.config, "clients": other})
        without = sent_by_engine(engine(changed, leap=True), changed)
        if any(at != without[row] for row, at in came):
            found.add(name)
    return found


def _without(limit: dict[str, Any] | None) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield a limit without one of its parts, and the name of that."""
    if limit is not None:
        yield "limited by session" if limit["by_session"] else "limited", None
        if limit["gap"]:
            yield "a gap", {**limit, "gap": 0}


def test_the_cases_reach_what_clients_do() -> None:
    least = {"sent at other moments": 10, "sent in another order": 5}
    least |= dict.fromkeys(("limited", "limited by session", "a gap", "never sent"), 1)
    counts: Counter[str] = Counter()

    def all_seen(case: WireCase) -> bool:
        try:
            counts.update(seen(case))
        except NoProgressError:  # the reference rejects such cases, too
            return False
        return counts >= Counter(least)

    # The search ends with the case that completes them.
    find(loads(), all_seen, settings=settings(max_examples=120, phases=[Phase.generate]))
