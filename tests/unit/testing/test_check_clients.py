"""`check` finds requests sent too early or too late, and limits that were not kept (INV-16, INV-17)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

import paceline
from paceline import Concurrency, Trace
from paceline.result import Result
from paceline.result.columns import RequestColumns
from paceline.testing import BrokenInvariant, check
from paceline.testing.clients import CHECKS
from paceline.testing.rows import Rows

CLUSTER = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.1), num_blocks=101)])


def replayed(clients: Concurrency | None) -> Result:
    """Replay four requests of a step each: two turns, a child of the first, and one by itself at 0.25 s."""
    trace = Trace.from_columns(
        arrival=[0.0, 0.0, 0.0, 0.25],
        prompt_tokens=[8] * 4,
        output_tokens=[1] * 4,
        session=["a", "a", None, "b"],
        think_time=[None, 0.5, None, None],
        request_id=["r0", "r1", "r2", "r3"],
        parents=[[], [], ["r0"], []],
        delay=[None, None, 0.2, None],
    )
    return paceline.replay(trace, CLUSTER, clients=clients)


def changed(result: Result, limit: Concurrency | None, moved: dict[int, float] | None = None) -> Result:
    """Return a result as if another limit had been given, with some requests sent by some seconds later."""
    row = pl.int_range(result.requests.height)
    later = pl.lit(0.0)
    for at, seconds in (moved or {}).items():
        later = pl.when(row == at).then(seconds).otherwise(later)
    moments = [pl.col(name) + later for name in ("arrival", "scheduled", "first_token", "finish")]
    settings: dict[str, Any] = {**result.provenance.settings, "clients": repr(limit)}
    if limit is None:
        del settings["clients"]
    provenance = replace(result.provenance, settings=settings)
    return Result(
        columns=RequestColumns.from_frame(result.requests.with_columns(moments)),
        stats=lambda: result.stats,
        itl=lambda: result.itl,
        provenance=lambda: provenance,
    )


def broken_by(result: Result) -> tuple[int, int | None, str]:
    rows = Rows.of(result)
    first = next(broken for one in CHECKS for broken in one(rows))
    assert isinstance(first, BrokenInvariant)
    return first.number, first.request, first.statement


@pytest.mark.parametrize(
    "limit", [None, Concurrency(1), Concurrency(2, gap_s=0.05), Concurrency(1, of="sessions")]
)
def test_untampered_they_pass(limit: Concurrency | None) -> None:
    result = replayed(limit)
    check(result)
    check(changed(result, limit))


def test_a_turn_or_a_child_that_is_sent_too_early_or_too_late_is_found() -> None:
    result = replayed(None)
    assert [round(at, 9) for at in result.requests["arrival"]] == [0.0, 0.6, 0.3, 0.25]
    for row in (1, 2):
        early, late = (changed(result, None, {row: by}) for by in (-0.01, 0.01))
        assert broken_by(early) == (16, row, "sent after the answers for which it waits")
        assert broken_by(late)[:2] == (16, row)


def test_more_in_flight_than_the_limit_are_found() -> None:
    # Without a limit the child is sent at 0.3, while the request of 0.25 runs until 0.35.
    number, _, statement = broken_by(changed(replayed(None), Concurrency(1)))
    assert (number, statement) == (17, "at most 1 in flight")


def test_a_gap_that_was_not_kept_is_found() -> None:
    # One at a time, the child is sent as the request of 0.25 ends at 0.35: the gap after that is not over.
    result = replayed(Concurrency(1))
    check(changed(result, Concurrency(1)))
    assert broken_by(changed(result, Concurrency(1, gap_s=0.02)))[0] == 17


def test_a_request_that_waited_beside_a_free_slot_is_found() -> None:
    number, row, statement = broken_by(changed(replayed(Concurrency(1)), Concurrency(2)))
    assert (number, row, statement) == (17, 2, "no request waits while a slot is free")


def test_a_request_of_a_session_in_flight_that_waited_is_found() -> None:
    limit = Concurrency(1, of="sessions")
    number, row, statement = broken_by(changed(replayed(limit), limit, {2: 0.05}))
    assert (number, row, statement) == (17, 2, "a request of a session in flight waits for no slot")
