"""INV-5: a leap is its steps."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import paceline
from differential.engine import engine
from differential.strategies import Case, cases
from paceline import _core, inst, req
from paceline.policies.pars import FOR_GOOD
from paceline.policy import Class, first_of, hold, pick

COLUMNS = (
    "scheduled",
    "first_token",
    "finish",
    "max_itl",
    "preemptions",
    "generated_tokens",
    "cached_tokens",
    "instance",
    "status",
    "reason",
)


def everything(outcome: _core.Outcome, instances: int, *, recorded: bool) -> dict[str, Any]:
    """Return all of an outcome but the number of events."""
    stats = json.loads(outcome.stats)
    del stats["events"]
    return {
        **{name: outcome.columns[name].tobytes() for name in COLUMNS},
        "itl": outcome.itl.to_json(),
        "stats": stats,
        "decisions": [outcome.decisions(index) for index in range(instances)] if recorded else None,
    }


@given(case=cases(), until=st.none() | st.integers(0, 1500), record=st.booleans())
def test_leaping_changes_no_bit(case: Case, until: int | None, record: bool) -> None:
    case = replace(case, until=until)
    count = len(case.instances)
    leapt = everything(engine(case, leap=True, record=record), count, recorded=record)
    stepped = everything(engine(case, leap=False, record=record), count, recorded=record)
    assert leapt == stepped


@given(output=st.integers(2, 100_000))
def test_a_lone_answer_of_any_length_is_a_few_events(output: int) -> None:
    cost = paceline.Affine(step_s=0.010, token_s=0.0, kv_token_s=1e-9)
    cluster = paceline.Cluster([paceline.Instance(cost=cost, num_blocks=10_000)])
    trace = paceline.Trace.from_columns(arrival=[0.0], prompt_tokens=[100], output_tokens=[output])
    result = paceline.replay(trace, cluster)
    # The n-th step ends with 99 + n tokens in the cache: the series summed by hand, in picoseconds.
    ticks = 10_000_000_000 * output + 1_000 * sum(range(100, 100 + output))
    assert result.requests["finish"][0] == ticks / 10**12
    assert result.stats.events <= 10


@st.composite
def guarded(draw: st.DrawFn) -> tuple[paceline.Trace, paceline.Cluster, paceline.Policy]:
    """Draw a crowded instance whose policy runs requests by score, and first those that waited too long."""
    size = draw(st.integers(10, 80))
    column = lambda elements: st.lists(elements, min_size=size, max_size=size)  # noqa: E731
    trace = paceline.Trace.from_columns(
        arrival=np.cumsum(draw(column(st.sampled_from([0.0, 0.0, 0.1, 0.7])))),
        prompt_tokens=draw(column(st.integers(1, 100))),
        output_tokens=draw(column(st.integers(1, 40))),
        score=draw(column(st.integers(0, 3))),
    )
    cost = paceline.Affine(step_s=0.01, token_s=0.001, kv_token_s=0.0)
    cluster = paceline.Cluster([paceline.Instance(cost=cost, num_blocks=draw(st.integers(12, 40)))])
    limit = draw(st.sampled_from([0.0, 0.2, 1.0, 3.0]))
    # Two requests that lose their ranks as they are admitted may displace each other without end.
    hold_for, admission = draw(st.sampled_from([(0, "wait"), (FOR_GOOD, "wait"), (FOR_GOOD, "displace")]))
    guard = Class("old", when=req.waiting_time > limit, hold=hold_for, order=req.arrival)
    # A router that holds some requests lets them come after later ones.
    at_once, few = pick(min=inst.requests), (inst.waiting < 3) | (req.score < 2)
    held = first_of(pick(min=inst.requests, where=few), hold())
    policy = paceline.Policy(
        name="guarded",
        scheduler=paceline.Scheduler(
            max_num_batched_tokens=128,
            max_num_seqs=draw(st.integers(1, 6)),
            classes=[guard],
            order=req.score,
            admission=admission,
        ),
        on_arrival=draw(st.sampled_from([at_once, held])),
    )
    return trace, cluster, policy


@given(case=guarded())
def test_only_the_first_of_those_that_waited_too_long_is_looked_at(
    case: tuple[paceline.Trace, paceline.Cluster, paceline.Policy],
) -> None:
    trace, cluster, policy = case
    leapt, stepped = (paceline.replay(trace, cluster, policy, leap=leap) for leap in (True, False))
    assert leapt.requests.equals(stepped.requests)
