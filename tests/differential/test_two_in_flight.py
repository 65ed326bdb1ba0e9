"""The engine, which decides each step late, against a scheduler with two steps in flight."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.two_in_flight import Engine
from paceline.conformance import check

COST = {"step_ns": 10, "token_ns": 1, "kv_token_ns": 1}


@st.composite
def loads(draw: st.DrawFn) -> tuple[dict[str, Any], list[list[Any]]]:
    """Draw an engine under pressure, and requests with different arrivals that share prefixes."""
    size = draw(st.sampled_from([1, 2, 4]))
    k = draw(st.sampled_from([0, 1, 2, 3]))
    caches = draw(st.booleans())
    rows, arrival = [], 0
    for _ in range(draw(st.integers(1, 12))):
        arrival += draw(st.sampled_from([1, 1, 3, 12, 40]))
        prompt, outputs = draw(st.integers(1, 30)), draw(st.integers(1, 12))
        shared = draw(st.integers(0, prompt // size)) if caches else 0
        first = draw(st.integers(0, 1))
        rows.append(
            [arrival, prompt, outputs, draw(st.integers(0, 2)), [first, *range(2, shared + 1)][:shared]]
        )
    longest = draw(st.sampled_from([200, 200, 44]))
    lookahead = draw(st.sampled_from([0, k]))
    # A lone request never runs out of blocks: it counts the drafts of two steps as computed.
    most = max(min(row[1] + row[2] + 2 * k + lookahead, longest) for row in rows)
    spec = {
        "method": "eagle",
        "k": k,
        "accept": draw(st.lists(st.integers(0, k), min_size=1, max_size=9)),
        "lookahead_slots": lookahead,
        "draft_input_slots": 0,
        "hash_lookahead": draw(st.integers(0, 1)),
        "drops_last_block": False,
    }
    settings = {
        "block_size": size,
        "num_blocks": 2 + -(-most // size) + draw(st.integers(0, 20)),
        "max_num_batched_tokens": draw(st.sampled_from([4, 9, 40])),
        "max_num_seqs": draw(st.sampled_from([2, 4, 99])),
        "max_model_len": longest,
        "prefix_caching": caches,
        "policy": draw(st.sampled_from(["fcfs", "priority"])),
        "long_prefill_token_threshold": draw(st.sampled_from([0, 0, 5])),
        "spec": spec if k else None,
        "async": True,
    }
    return settings, rows


@pytest.mark.parametrize("leap", [True, False], ids=["leaping", "stepping"])
@given(loads())
def test_late_decisions_are_those_of_two_steps_in_flight(
    leap: bool, load: tuple[dict[str, Any], list[list[Any]]]
) -> None:
    settings, rows = load
    assert check(Engine(settings, COST, rows).log(), leap=leap) is None
