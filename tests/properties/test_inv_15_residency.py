"""INV-15: the account of KV is the sum of what requests say."""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from differential.policies import HANDOVERS, WireCase, policies
from differential.test_policies import engine, reference
from differential.timelines import timeline_of_engine
from paceline.errors import NoProgressError

COARSE = st.fixed_dictionaries({"every": st.integers(10, 200), "most": st.sampled_from([2, 50, 200])})
"""Samples; `differential.test_timelines` compares all columns, with an interval of a tick, too."""

TIERS = ("kv_tokens", "kv_host_tokens", "kv_arriving_tokens", "kv_sending_blocks", "kv_receiving_blocks")


@st.composite
def sampled(draw: st.DrawFn) -> WireCase:
    """Draw a sampled case, in which requests may be swapped, migrate or be handed over."""
    case = draw(policies())
    handover = {"handover": draw(HANDOVERS)} if draw(st.booleans()) else {}
    return WireCase(
        requests=case.requests, config={**case.config, **handover, "sample": {"every": 1, "most": 4000}}
    )


def tiers(rows: list[dict[str, Any]]) -> list[tuple[int, ...]]:
    return [tuple(row[name] for name in TIERS) for row in rows]


@given(case=sampled(), sample=COARSE)
def test_tiers_hold_at_every_sample_what_requests_say(case: WireCase, sample: dict[str, int]) -> None:
    # While it leaps the engine reads its account; while it steps, every request.
    case = WireCase(requests=case.requests, config={**case.config, "sample": sample})
    expected = reference(case)
    assert expected.timeline is not None
    read, counted = (timeline_of_engine(engine(case, leap=leap, record=False)) for leap in (True, False))
    assert tiers(read[2]) == tiers(counted[2]) == tiers(expected.timeline[2])


def test_kv_is_on_the_host_and_on_its_way_in_some_draws() -> None:
    seen = {"kv_host_tokens": 0, "kv_arriving_tokens": 0}

    def all_seen(case: WireCase) -> bool:
        try:
            outcome = engine(case, leap=True, record=False)
        except NoProgressError:  # the reference rejects such cases, too
            return False
        assert outcome.timeline is not None
        for name in seen:
            seen[name] += bool((outcome.timeline[name] > 0).any())
        return min(seen.values()) > 3

    find(sampled(), all_seen, settings=settings(max_examples=400, phases=[Phase.generate]))
