"""The engine against the step-by-step reference: every step, and every request's row."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from differential.counters import usage_of
from differential.engine import decisions, engine, gaps, reference, rows_of_engine, rows_of_reference
from differential.strategies import KINDS, Case, Kind, cases
from paceline.testing.reference import AffineCost, Request, VllmV1Config

EACH = pytest.mark.parametrize("kind", KINDS)
BOTH = (False, True)
"""Stepping and leaping: each drawn case goes through the reference once, and through the engine both ways."""
REACH = max(40, settings.default.max_examples)
UNTIL = st.none() | st.integers(0, 1500)


@EACH
@given(data=st.data())
def test_every_step_decides_the_same(data: st.DataObject, kind: Kind) -> None:
    case = data.draw(cases(kind))
    expected = reference(case)
    for leap in BOTH:
        outcome = engine(case, leap=leap, record=True)
        for index, instance in enumerate(expected.instances):
            assert decisions(case, outcome, index) == instance.steps, f"leap={leap}"


@EACH
@given(data=st.data(), until=UNTIL)
def test_every_request_has_the_same_row(data: st.DataObject, until: int | None, kind: Kind) -> None:
    case = replace(data.draw(cases(kind)), until=until)
    expected = rows_of_reference(reference(case))
    for leap in BOTH:
        assert rows_of_engine(engine(case, leap=leap)) == expected, f"leap={leap}"


@EACH
@given(data=st.data(), until=UNTIL)
def test_every_instance_has_the_same_counters(data: st.DataObject, until: int | None, kind: Kind) -> None:
    case = replace(data.draw(cases(kind)), until=until)
    expected = reference(case)
    for leap in BOTH:
        stats = json.loads(engine(case, leap=leap).stats)
        assert stats["end_ticks"] == expected.end, f"leap={leap}"
        for found, instance in zip(stats["instances"], expected.instances, strict=True):
            wanted = usage_of(instance)
            assert {name: found[name] for name in wanted} == wanted, f"leap={leap}"


@EACH
@given(data=st.data())
def test_tokens_and_the_gaps_between_them_are_counted_exactly(data: st.DataObject, kind: Kind) -> None:
    case = data.draw(cases(kind))
    expected = reference(case)
    between = [gap for sequence in expected.sequences for gap in gaps(sequence.token_times)]
    for leap in BOTH:
        outcome = engine(case, leap=leap)
        stats = json.loads(outcome.stats)
        for found, instance in zip(stats["instances"], expected.instances, strict=True):
            assert found["prefill_tokens"] + found["decode_tokens"] == instance.usage.tokens, f"leap={leap}"
        assert outcome.itl.count == len(between)
        assert outcome.itl.sum_ticks == sum(between)
        if between:
            assert (outcome.itl.min_ticks, outcome.itl.max_ticks) == (min(between), max(between))


@EACH
@given(data=st.data(), until=UNTIL)
def test_leaping_changes_nothing(data: st.DataObject, until: int | None, kind: Kind) -> None:
    case = replace(data.draw(cases(kind)), until=until)
    reference(case)  # drops a case that would not end
    stepped, leapt = engine(case, leap=False), engine(case, leap=True)
    assert rows_of_engine(leapt) == rows_of_engine(stepped)
    assert leapt.itl == stepped.itl
    ours, theirs = json.loads(leapt.stats), json.loads(stepped.stats)
    del ours["events"], theirs["events"]  # leaping takes fewer events
    assert ours == theirs


@pytest.mark.parametrize("leap", BOTH, ids=["step", "leap"])
def test_a_peak_is_of_steps_and_not_of_moments_while_one_forms(leap: bool) -> None:
    """Three requests hold 9 of 10 blocks, and each needs another: the last is preempted, and 8 are held.

    The first takes the tenth block before the second finds none, but no step runs with 10 blocks held.
    """
    config = VllmV1Config(block_size=1, num_blocks=11, max_num_batched_tokens=64, max_num_seqs=8)
    case = Case(requests=3 * [Request(0, 3, 2)], instances=[(config, AffineCost(step=1))])
    outcome = engine(case, leap=leap)
    assert outcome.preemptions.tolist() == [0, 0, 1]
    assert json.loads(outcome.stats)["instances"][0]["peak_blocks"] == 9
    assert reference(case).instances[0].usage.peak_blocks == 9


@EACH
def test_the_cases_reach_what_they_are_for(kind: Kind) -> None:
    """Preemptions, rejections, queues, and leaps over several steps occur among the drawn cases."""
    seen = {"preempted": 0, "rejected": 0, "waited": 0, "leapt": 0}
    if kind == "vllm-cached":
        seen["hit"] = 0
    if kind == "vllm-v0":
        seen["swapped"] = 0

    @settings(max_examples=REACH)
    @given(case=cases(kind))
    def look(case: Case) -> None:
        outcome = reference(case)
        seen["preempted"] += any(sequence.preemptions for sequence in outcome.sequences)
        seen["rejected"] += any(outcome.rejected)
        seen["waited"] += any(instance.usage.waiting_time for instance in outcome.instances)
        stats = json.loads(engine(case, leap=True).stats)
        seen["leapt"] += stats["events"] < stats["steps"]
        if "hit" in seen:
            seen["hit"] += any(sequence.hit_tokens for sequence in outcome.sequences)
        if "swapped" in seen:
            seen["swapped"] += any(instance["swapped_in_blocks"] for instance in stats["instances"])

    look()
    assert min(seen.values()) >= 1, seen
