"""Timelines: the engine against the reference under random policies, leaping and stepping."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from differential.policies import WireCase, policies
from differential.test_policies import BOTH, engine, reference
from differential.timelines import SAMPLES, timeline_of_engine

UNTIL = st.none() | st.integers(0, 800)


def agree(case: WireCase) -> None:
    expected = reference(case)
    assert expected.timeline is not None
    for leap in BOTH:
        every, times, rows = timeline_of_engine(engine(case, leap=leap, record=False))
        assert (every, times) == expected.timeline[:2]
        for row, wanted in zip(rows, expected.timeline[2], strict=True):
            assert row == wanted


@given(case=policies(), sample=SAMPLES, until=UNTIL)
def test_every_instance_has_the_same_states_and_sums_at_every_sample(
    case: WireCase, sample: dict[str, int], until: int | None
) -> None:
    agree(replace(case, config={**case.config, "sample": sample, "until": until}))


@given(case=policies(moves=False), sample=SAMPLES)
def test_without_moves_they_are_the_same(case: WireCase, sample: dict[str, int]) -> None:
    agree(replace(case, config={**case.config, "sample": sample}))


@given(case=policies(), sample=SAMPLES, leap=st.booleans(), record=st.booleans())
def test_a_sampled_replay_has_the_same_results(
    case: WireCase, sample: dict[str, Any], leap: bool, record: bool
) -> None:
    reference(case)
    plain = engine(case, leap=leap, record=record)
    sampled = engine(replace(case, config={**case.config, "sample": sample}), leap=leap, record=record)
    assert plain.timeline is None
    assert sampled.stats == plain.stats
    assert sampled.itl == plain.itl
    assert sampled.columns["finish"].tobytes() == plain.columns["finish"].tobytes()
    assert sampled.columns["max_itl"].tobytes() == plain.columns["max_itl"].tobytes()
    assert sampled.columns["preempted"].tobytes() == plain.columns["preempted"].tobytes()
    if record:
        for index in range(len(case.config["instances"])):
            assert sampled.decisions(index) == plain.decisions(index)
