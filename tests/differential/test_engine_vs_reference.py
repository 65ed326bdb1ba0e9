"""The engine against the step-by-step reference: every step, and every request's row."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from differential.counters import usage_of
from differential.engine import decisions, engine, gaps, reference, rows_of_engine, rows_of_reference
from differential.strategies import KINDS, Case, Kind, cases
from paceline import _core
from paceline.testing.reference import AffineCost, Outcome, Request, VllmV1Config, replay_cluster

EACH = pytest.mark.parametrize("kind", KINDS)
BOTH = (False, True)
"""Stepping and leaping: each drawn case goes through the reference once, and through the engine both ways."""


@EACH
@given(data=st.data(), until=st.integers(0, 1500))
def test_steps_rows_counters_and_gaps_are_those_of_the_reference(
    data: st.DataObject, until: int, kind: Kind
) -> None:
    """Each case is drawn and replayed once for all of these, and once more up to the moment ``until``."""
    case = data.draw(cases(kind))
    expected = reference(case)
    for leap in BOTH:
        recorded = engine(case, leap=leap, record=True)
        for index, instance in enumerate(expected.instances):
            assert decisions(case, recorded, index) == instance.steps, f"leap={leap}"
    agree_on_tokens(agree_on_outcomes(case, expected), expected)
    ended = replace(case, until=until)
    agree_on_outcomes(ended, replay_cluster(case.requests, case.instances, case.routing, until))


@EACH
def test_the_cases_reach_what_they_are_for(kind: Kind) -> None:
    """Preemptions, rejections, queues, and leaps over several steps occur among the drawn cases.

    The engine replays them: the test above shows that its counts are the reference's.
    """
    seen = {"preempted": 0, "rejected": 0, "waited": 0, "leapt": 0}
    if kind == "vllm-cached":
        seen["hit"] = 0
    if kind == "vllm-v0":
        seen["swapped"] = 0

    def all_seen(case: Case) -> bool:
        outcome = engine(case, leap=True)
        stats = json.loads(outcome.stats)
        used = stats["instances"]
        seen["preempted"] += bool(outcome.columns["preemptions"].any())
        seen["rejected"] += bool(outcome.columns["reason"].any())
        seen["waited"] += any(one["waiting_ticks"] for one in used)
        seen["leapt"] += stats["events"] < stats["steps"]
        if "hit" in seen:
            seen["hit"] += bool(outcome.columns["cached_tokens"].any())
        if "swapped" in seen:
            seen["swapped"] += any(one["swapped_in_blocks"] for one in used)
        return min(seen.values()) >= 1

    # The search ends with the case that completes them.
    find(cases(kind), all_seen, settings=settings(max_examples=400, phases=[Phase.generate]))


def agree_on_outcomes(case: Case, expected: Outcome) -> _core.Outcome:
    """Check rows and counters of both ways, and that the rest of both is equal; return the one that leapt."""
    stepped, leapt = (engine(case, leap=leap) for leap in BOTH)
    rows = rows_of_reference(expected)
    for outcome in (stepped, leapt):
        assert rows_of_engine(outcome) == rows
        stats = json.loads(outcome.stats)
        assert stats["end_ticks"] == expected.end
        for found, instance in zip(stats["instances"], expected.instances, strict=True):
            wanted = usage_of(instance)
            assert {name: found[name] for name in wanted} == wanted
    assert leapt.itl == stepped.itl
    ours, theirs = json.loads(leapt.stats), json.loads(stepped.stats)
    del ours["events"], theirs["events"]  # leaping takes fewer events
    assert ours == theirs
    return leapt


def agree_on_tokens(outcome: _core.Outcome, expected: Outcome) -> None:
    """Check that tokens and the gaps between them are counted exactly."""
    between = [gap for sequence in expected.sequences for gap in gaps(sequence.token_times)]
    for found, instance in zip(json.loads(outcome.stats)["instances"], expected.instances, strict=True):
        assert found["prefill_tokens"] + found["decode_tokens"] == instance.usage.tokens
    assert outcome.itl.count == len(between)
    assert outcome.itl.sum_ticks == sum(between)
    if between:
        assert (outcome.itl.min_ticks, outcome.itl.max_ticks) == (min(between), max(between))


@pytest.mark.parametrize("leap", BOTH, ids=["step", "leap"])
def test_a_peak_is_of_steps_and_not_of_moments_while_one_forms(leap: bool) -> None:
    """Three requests hold 9 of 10 blocks, and each needs another: the last is preempted, and 8 are held.

    The first takes the tenth block before the second finds none, but no step runs with 10 blocks held.
    """
    config = VllmV1Config(block_size=1, num_blocks=11, max_num_batched_tokens=64, max_num_seqs=8)
    case = Case(requests=3 * [Request(0, 3, 2)], instances=[(config, AffineCost(step=1))])
    outcome = engine(case, leap=leap)
    assert outcome.columns["preemptions"].tolist() == [0, 0, 1]
    assert json.loads(outcome.stats)["instances"][0]["peak_blocks"] == 9
    assert reference(case).instances[0].usage.peak_blocks == 9
