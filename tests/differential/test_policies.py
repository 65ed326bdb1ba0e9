"""The engine against the reference under random policies: every decision, row and counter."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from differential import wire
from differential.counters import carried, carried_by, counters_of
from differential.engine import NEVER, NOWHERE, REASON, STATUS, count, gaps
from differential.policies import WireCase, policies
from paceline import _core
from paceline.testing.reference.policy_sim import (
    Outcome,
    Request,
    TraceRequest,
    qoe,
    qoe_answering,
    replay,
    split,
)

BOTH = (False, True)
"""Stepping and leaping: each drawn case goes through the reference once, and through the engine both ways."""


def engine(case: WireCase, *, leap: bool, record: bool) -> _core.Outcome:
    config = {**case.config, "leap": leap, "record_decisions": record}
    return _core.replay(msgspec.json.encode(config), wire.columns(case.requests), None)


def reference(case: WireCase) -> Outcome:
    """Replay a case through the reference; drop a case in which no request makes progress."""
    try:
        return replay(case.config, case.requests, most_steps=3000)
    except RuntimeError:
        reject()


@dataclass(frozen=True, slots=True)
class Row:
    """A request's row; times in ticks. What is known only when a request finishes is None before."""

    status: str
    reason: str | None
    instance: int | None
    generated: int
    cached: int
    preemptions: int
    scheduled: int | None
    first_token: int | None
    reasoning_end: int | None
    first_answer: int | None
    answer_started: int | None
    finish: int | None
    cancelled: int | None
    retries: int | None
    wasted: int | None
    first_sent: int | None
    longest_gap: int | None
    last_instance: int | None
    migrations: int | None
    transfer: int | None
    preempted: int | None
    preempted_answering: int | None
    transfer_answering: int | None
    handover_wait: int | None
    received_wait: int | None
    first_decode: int | None
    prefill_stall: int | None
    interrupted_prefill: int | None


def rows_of_reference(outcome: Outcome) -> list[Row]:
    return [_row(outcome, request) for request in outcome.requests]


def _row(outcome: Outcome, request: Request) -> Row:
    times, starts, reasoned = request.token_times, request.token_starts, request.spec.reasoning_tokens
    parts = split(request) if request.finished else None
    return Row(
        status=outcome.status(request.index),
        reason=outcome.rejected[request.index] or request.cause,
        instance=outcome.instance[request.index],
        generated=request.generated,
        cached=request.hit_tokens,
        preemptions=request.preemptions,
        scheduled=request.scheduled,
        first_token=times[0] if times else None,
        reasoning_end=request.reasoning_end,
        first_answer=times[reasoned] if reasoned < len(times) else None,
        answer_started=starts[reasoned] if reasoned < len(times) else None,
        finish=times[-1] if request.finished else None,
        cancelled=request.cancelled,
        retries=len(outcome.before[request.index]),
        wasted=sum(one.generated for one in outcome.before[request.index]),
        first_sent=_first_sent(outcome, request),
        longest_gap=max(gaps(times), default=None),
        last_instance=request.last if parts else None,
        migrations=len(request.transfers) if parts else None,
        transfer=parts.transfer if parts else None,
        preempted=parts.preempted if parts else None,
        preempted_answering=parts.preempted_answering if parts else None,
        transfer_answering=parts.transfer_answering if parts else None,
        handover_wait=request.handover_wait if parts else None,
        received_wait=request.received_wait if parts else None,
        first_decode=request.first_decode if parts else None,
        prefill_stall=_prefill_stall(request) if parts else None,
        interrupted_prefill=_interrupted_prefill(request) if parts else None,
    )


def _first_sent(outcome: Outcome, request: Request) -> int | None:
    """Return when a request was sent first; None where it was not."""
    sent = [*outcome.before[request.index], request]
    return None if outcome.status(request.index) == "not arrived" else sent[0].spec.arrival


def _prefill_stall(request: Request) -> int:
    """Return the ticks from its first admission to its first token in which no step computed it."""
    assert request.scheduled is not None
    computed = sum(end - start for start, end in request.prefill_steps)
    return request.token_times[0] - request.scheduled - computed


def _interrupted_prefill(request: Request) -> int:
    """Return the part of it for which the request was out of its batch."""
    assert request.scheduled is not None
    first = request.token_times[0]
    spells = [(spell.start, spell.end) for spell in request.spells if spell.end is not None]
    moves = [(move.left, move.landed) for move in request.transfers if move.left >= request.scheduled]
    return sum(end - start for start, end in spells + moves if end <= first)


def rows_of_engine(outcome: _core.Outcome, expected: list[Row]) -> list[Row]:
    """Return the engine's rows.

    The engine leaves columns out: those of moves where no rule moves requests, those of
    reasoning where the trace has none. What a missing column stands for is filled in. Only the start of the
    first answer token's step is in no other column, so that it is taken from the expected row.
    """

    def left_out(index: int, field: str) -> int | None:
        match field:
            case "migrations" | "transfer" | "transfer_answering":
                return 0
            case "preempted" | "preempted_answering" | "interrupted_prefill":
                return 0
            case "handover_wait" | "received_wait" | "first_decode":
                return 0
            case "last_instance":
                return at("instance", index, "instance")
            case "reasoning_end" | "cancelled_at":
                return None
            case "sent_again" | "wasted_tokens":
                return 0
            case "first_sent":
                return expected[index].first_sent
            case "first_answer":
                return at("first_token", index, "first_token")
            case "answer_started":
                return expected[index].answer_started
        raise AssertionError(f"the engine must always give {field}")

    def at(name: str, index: int, field: str) -> int | None:
        column = outcome.columns[name]
        if len(column) == 0:
            return left_out(index, field)
        value = int(column[index])
        return None if value == (NOWHERE if "instance" in name else NEVER) else value

    def of_moves(field: str, index: int) -> int | None:
        return at(field, index, field)

    rows = []
    for index, status in enumerate(outcome.columns["status"].tolist()):
        done = STATUS[status] == "finished"
        rows.append(
            Row(
                status=STATUS[status],
                reason=REASON[outcome.columns["reason"][index]],
                instance=at("instance", index, "instance"),
                generated=int(outcome.columns["generated_tokens"][index]),
                cached=count(outcome, "cached_tokens", index),
                preemptions=count(outcome, "preemptions", index),
                scheduled=at("scheduled", index, "scheduled"),
                first_token=at("first_token", index, "first_token"),
                reasoning_end=at("reasoning_end", index, "reasoning_end"),
                first_answer=at("first_answer", index, "first_answer"),
                answer_started=at("answer_started", index, "answer_started"),
                finish=at("finish", index, "finish"),
                cancelled=at("cancelled_at", index, "cancelled_at"),
                retries=at("sent_again", index, "sent_again"),
                wasted=at("wasted_tokens", index, "wasted_tokens"),
                first_sent=at("first_sent", index, "first_sent"),
                longest_gap=at("max_itl", index, "longest_gap"),
                last_instance=at("last_instance", index, "last_instance") if done else None,
                migrations=at("migrations", index, "migrations") if done else None,
                transfer=at("transfer", index, "transfer") if done else None,
                preempted=at("preempted", index, "preempted") if done else None,
                preempted_answering=at("preempted_answering", index, "preempted_answering") if done else None,
                transfer_answering=of_moves("transfer_answering", index) if done else None,
                handover_wait=of_moves("handover_wait", index) if done else None,
                received_wait=of_moves("received_wait", index) if done else None,
                first_decode=of_moves("first_decode", index) if done else None,
                prefill_stall=at("prefill_stall", index, "prefill_stall") if done else None,
                interrupted_prefill=at("interrupted_prefill", index, "interrupted_prefill") if done else None,
            )
        )
    return rows


def decisions(outcome: _core.Outcome, index: int) -> list[list[Any]]:
    """Return the steps of one instance in the reference's format."""
    return [
        [
            record["start"],
            [list(entry[:3]) for entry in record["scheduled"]],
            record["preempted"],
            list(record["copied"]),
            record["free_blocks"],
        ]
        for record in json.loads(outcome.decisions(index))
    ]


def agree_on_decisions(case: WireCase, expected: Outcome, *, leap: bool) -> None:
    outcome = engine(case, leap=leap, record=True)
    for index, replica in enumerate(expected.replicas):
        assert decisions(outcome, index) == replica.steps


def agree_on_requests(case: WireCase, expected: Outcome, *, leap: bool) -> None:
    rows = rows_of_reference(expected)
    outcome = engine(case, leap=leap, record=False)
    assert json.loads(outcome.flips) == [list(change) for change in expected.flips]
    assert rows_of_engine(outcome, rows) == rows


def agree_on_usage(case: WireCase, expected: Outcome, *, leap: bool) -> None:
    stats = json.loads(engine(case, leap=leap, record=False).stats)
    assert stats["end_ticks"] == expected.end
    assert carried(stats) == carried_by(expected)
    for found, replica in zip(stats["instances"], expected.replicas, strict=True):
        wanted = counters_of(replica)
        assert {name: found[name] for name in wanted} == wanted


def agree_on_quality(case: WireCase, expected: Outcome, *, leap: bool) -> None:
    """Check that the quality of experience, where it is measured, is that of the timeline."""
    pace = case.config["pace"]
    if pace is None:
        return
    outcome = engine(case, leap=leap, record=False)
    for row, request in enumerate(expected.requests):
        if request.done and request.answer_times:
            answering = qoe_answering(request.answer_times, pace["interval"])
            assert outcome.columns["qoe_answering"][row] == pytest.approx(answering, rel=1e-12, abs=1e-12)
            if pace["ttft"] is not None:
                whole = qoe(request.answer_times, pace["interval"], request.spec.arrival + pace["ttft"])
                assert outcome.columns["qoe"][row] == pytest.approx(whole, rel=1e-12, abs=1e-12)


@given(case=policies(moves=False))
def test_without_moves_every_step_decides_the_same(case: WireCase) -> None:
    expected = reference(case)
    for leap in BOTH:
        agree_on_decisions(case, expected, leap=leap)
        agree_on_usage(case, expected, leap=leap)


@given(case=policies(), until=st.integers(0, 800))
def test_steps_rows_counters_and_paces_are_those_of_the_reference(case: WireCase, until: int) -> None:
    """Each case is drawn and replayed once for all of these, and once more up to the moment ``until``."""
    expected = reference(case)
    for leap in BOTH:
        agree_on_decisions(case, expected, leap=leap)
        agree_on_requests(case, expected, leap=leap)
        agree_on_usage(case, expected, leap=leap)
        agree_on_quality(case, expected, leap=leap)
    ended = replace(case, config={**case.config, "until": until})
    expected = replay(ended.config, case.requests, most_steps=3000)
    for leap in BOTH:
        agree_on_requests(ended, expected, leap=leap)
        agree_on_usage(ended, expected, leap=leap)


@pytest.mark.parametrize("leap", BOTH, ids=["step", "leap"])
def test_the_queue_is_counted_once_a_step_is_decided(leap: bool) -> None:
    """Steps take 10 ticks. Row 1 migrates at 10, and its 3 of 6 blocks stay allocated until 113.

    At 20, row 0 holds the other three blocks, needs a fourth and is preempted; such a step admits
    no request. The next step is formed at the same moment and admits row 2, which has waited since 15, as has
    row 3. So at most two requests wait.
    """
    by_priority = wire.order(wire.a_class(wire.field("req.priority")))
    small = wire.instance(
        6, step=10, unless_preempted=True, allocation="chunk", order=by_priority, preemption=None
    )
    first = wire.pick(wire.field("inst.index"))
    of_row_1 = wire.op("eq", wire.field("req.priority"), wire.const(2))
    second = wire.op("eq", wire.field("inst.index"), wire.const(1))
    case = WireCase(
        requests=[
            TraceRequest(0, 2, 4, 1),
            TraceRequest(0, 3, 4, 2),
            TraceRequest(15, 3, 1, 0),
            TraceRequest(15, 3, 1, 0),
        ],
        config=wire.cluster(
            small,
            small,
            on_arrival=first,
            on_prefilled=wire.pick(wire.field("inst.index"), where=wire.op("and", second, of_row_1)),
            links=(3e10, 3),
        ),
    )
    usage = json.loads(engine(case, leap=leap, record=False).stats)["instances"][0]
    assert (usage["preemptions"], usage["peak_waiting"]) == (1, 2)
    agree_on_usage(case, reference(case), leap=leap)
