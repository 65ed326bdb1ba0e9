"""The engine against the reference under random compositions of stages and rules, both ways."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import Phase, find, given, reject, settings

from differential import wire
from differential.compositions import Composed, compositions
from differential.counters import cached_by, counters_of
from differential.test_policies import decisions, rows_of_engine, rows_of_reference
from paceline import _core
from paceline.errors import ConfigError, NoProgressError
from paceline.testing.reference.policy_sim import Outcome, covers, replay

KIND = pytest.mark.parametrize("kind", ["ranked", "unranked", "layered"])


def share(parts: int) -> int:
    """Return the number of examples for one of several parts of a test."""
    return settings.default.max_examples // parts


def reference(case: Composed) -> Outcome:
    """Replay a case through the reference; drop a case in which no request makes progress."""
    try:
        return replay(
            case.config, case.requests, prefix_block_tokens=case.prefix_block_tokens, most_steps=3000
        )
    except RuntimeError:
        reject()


def engine(case: Composed, *, leap: bool) -> _core.Outcome:
    """Replay a case through the engine; drop one that it refuses, or in which nothing progresses."""
    config = {**case.config, "leap": leap, "record_decisions": True}
    columns = wire.columns(case.requests, case.prefix_block_tokens)
    try:
        return _core.replay(msgspec.json.encode(config), columns, None)
    except (ConfigError, NoProgressError):
        reject()


def agree(case: Composed) -> None:
    assert covers(case.config)
    found = [engine(case, leap=leap) for leap in (False, True)]
    expected = reference(case)
    for one in found:
        compare(one, expected)


def compare(found: _core.Outcome, expected: Outcome) -> None:
    for index, replica in enumerate(expected.replicas):
        assert decisions(found, index) == replica.steps
    rows = rows_of_reference(expected)
    assert rows_of_engine(found, rows) == rows
    stats = json.loads(found.stats)
    assert stats["end_ticks"] == expected.end
    for used, replica in zip(stats["instances"], expected.replicas, strict=True):
        wanted = counters_of(replica) | cached_by(replica)
        assert {name: used[name] for name in wanted} == wanted


@KIND
def test_every_step_and_every_count_is_the_same(kind: str) -> None:
    @settings(max_examples=share(2))
    @given(case=compositions(kind=kind))
    def check(case: Composed) -> None:
        agree(case)

    check()


def test_with_migrations_every_step_and_every_count_is_the_same() -> None:
    @settings(max_examples=share(2))
    @given(case=compositions(moves=True))
    def check(case: Composed) -> None:
        agree(case)

    check()


def test_the_cases_reach_what_they_are_for() -> None:
    """Prefix hits, swaps, groups of layers, preemptions and rejections all occur among the drawn cases.

    The engine replays them: the tests above show that its counts are the reference's.
    """
    seen = dict.fromkeys(("hit", "swapped", "grouped", "preempted", "rejected", "evicted"), 0)

    def all_seen(case: Composed) -> bool:
        outcome = engine(case, leap=True)
        used = json.loads(outcome.stats)["instances"]
        seen["hit"] += any(one["prefix_hits"] for one in used)
        seen["swapped"] += any(one["swapped_in_blocks"] for one in used)
        seen["grouped"] += any(
            record["group"] for index in range(len(used)) for record in json.loads(outcome.decisions(index))
        )
        seen["preempted"] += bool(outcome.columns["preemptions"].any())
        seen["rejected"] += bool(outcome.columns["reason"].any())
        seen["evicted"] += any(one["evictions"] for one in used)
        return min(seen.values()) >= 1

    # The search ends with the case that completes them.
    find(compositions(), all_seen, settings=settings(max_examples=400, phases=[Phase.generate]))
