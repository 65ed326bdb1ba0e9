"""What routers keep, in the engine and in the reference: every decision that depends on it is the same."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from differential import wire
from differential.wire import Wire, const, field, op
from paceline import _core
from paceline.testing.reference.policy_sim import TraceRequest, replay

BLOCKS = (2, 4, 8)
"""Tokens in a block of a router; the ids of a trace are of blocks of 4 tokens."""
SIZES = st.sampled_from(BLOCKS)
INDEXES = st.fixed_dictionaries(
    {
        "block_tokens": SIZES,
        "capacity": st.none() | st.integers(1, 12),
        "longest": st.none() | st.integers(1, 4),
        "learns": st.sampled_from(["routed", "prefilled", "finished"]),
    }
)
ACTIVE = st.fixed_dictionaries(
    {
        "block_tokens": SIZES,
        "prompts": st.sampled_from([True, True, True, False]),
        "reuses": st.booleans(),
        "outputs": st.sampled_from(["none", "whole", "decaying"]),
    }
)
TREES = st.just({"block_tokens": 4, "text": "tokens"})
OWNERS = st.builds(
    lambda above, within: {"rule": "owner", "above": above, "within": within},
    st.sampled_from([0.0, 0.3, 0.9]),
    st.sampled_from([None, [0], [1]]),
)
FIELDS = ("index_blocks", "index_tokens", "active_blocks", "active_new_blocks", "active_prefill_tokens")


@st.composite
def requests(draw: st.DrawFn) -> list[TraceRequest]:
    """Draw requests whose prompts share prefixes, by ids or by sessions."""
    by_ids = draw(st.booleans())
    found = []
    shape = st.tuples(st.sampled_from([0, 0, 3, 11, 40]), st.integers(1, 24), st.integers(1, 20))
    shapes = draw(st.lists(shape, min_size=2, max_size=14))
    arrivals = accumulate(gap for gap, _, _ in shapes)
    for at, (_, prompt, output) in zip(arrivals, shapes, strict=True):
        ids = draw(st.lists(st.integers(0, 1), min_size=-(-prompt // 4), max_size=-(-prompt // 4)))
        # A trace of n requests has sessions 0 to n - 1.
        session = draw(st.none() | st.integers(0, 1))
        kind: dict[str, Any] = {"prefix": tuple(ids)} if by_ids else {"session": session}
        found.append(TraceRequest(at, prompt, output, **kind))
    return found


@st.composite
def keys(draw: st.DrawFn) -> Wire:
    """Draw a weighted sum of what routers keep and of what instances report."""
    names = draw(st.lists(st.sampled_from((*FIELDS, "requests")), min_size=1, max_size=4))
    weights = st.sampled_from([1.0, -1.0, 0.25, 3.0])
    parts = [op("mul", field(f"inst.{name}"), const(draw(weights))) for name in names]
    over = {"over": draw(st.sampled_from(["min", "max", "mean"])), "of": parts[0], "within": None}
    return op("max", op("add", *parts), draw(st.just(over) | st.just(const(-1e9))))


@st.composite
def configs(draw: st.DrawFn) -> Wire:
    """Draw a cluster whose rules read what a router keeps."""
    count = draw(st.integers(2, 4))
    instance = wire.instance(
        draw(st.sampled_from([40, 200])), block_tokens=4,
        step=draw(st.integers(1, 9)), token=draw(st.integers(0, 2)),
        budget=draw(st.sampled_from([8, 64])), seats=draw(st.sampled_from([2, 16])),
    )  # fmt: skip
    rules = [wire.pick(draw(keys()))]
    if draw(st.booleans()):
        rules.insert(0, draw(OWNERS))
    config = wire.cluster(
        *count * [instance],
        on_arrival=rules[0] if len(rules) == 1 else wire.first_of(*rules),
    )
    config["roles"] = draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    if draw(st.booleans()):
        config["routing"]["decode_on_arrival"] = wire.first_of(draw(OWNERS), wire.pick(draw(keys())))
    config["routing"]["books"] = {"index": draw(INDEXES), "active": draw(ACTIVE), "tree": draw(TREES)}
    return config


@given(config=configs(), rows=requests())
def test_the_engine_routes_as_the_reference_does(config: Wire, rows: list[TraceRequest]) -> None:
    expected = replay(config, rows, prefix_block_tokens=4)
    firsts = [request.token_times[0] if request.token_times else None for request in expected.requests]
    for leap in (True, False):
        outcome = _core.replay(
            msgspec.json.encode({**config, "leap": leap, "record_decisions": False}),
            wire.columns(rows, 4),
            None,
        )
        routed = [
            None if request.rejected else at
            for request, at in zip(expected.requests, expected.instance, strict=True)
        ]
        ours = [
            None if request.rejected else at
            for request, at in zip(expected.requests, outcome.columns["instance"].tolist(), strict=True)
        ]
        assert ours == routed
        first_tokens = outcome.columns["first_token"].tolist()
        assert [at for at, first in zip(first_tokens, firsts, strict=True) if first is not None] == [
            first for first in firsts if first is not None
        ]
