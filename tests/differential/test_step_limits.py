"""Limits that vary, and prompts that are passed over: the engine against the reference, both ways."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import Phase, find, given, reject, settings

from differential import wire
from differential.compositions import Composed
from differential.step_limits import limited
from differential.test_compositions import agree, engine, share
from paceline import _core
from paceline.errors import ConfigError, NoProgressError
from paceline.testing.reference.policy_sim import TraceRequest


@pytest.mark.parametrize("kind", ["ranked", "unranked", "layered"])
def test_every_step_is_the_same(kind: str) -> None:
    @settings(max_examples=share(2))
    @given(case=limited(kind=kind))
    def check(case: Composed) -> None:
        agree(case)

    check()


def test_with_migrations_every_step_is_the_same() -> None:
    @settings(max_examples=share(2))
    @given(case=limited(moves=True))
    def check(case: Composed) -> None:
        agree(case)

    check()


def outcome(case: Composed, *, leap: bool) -> tuple[list[bytes], dict[str, object]]:
    """Replay a case without a log, so that runs are planned; return its columns and counts."""
    columns = wire.columns(case.requests, case.prefix_block_tokens)
    try:
        found = _core.replay(
            msgspec.json.encode({**case.config, "leap": leap, "record_decisions": False}), columns, None
        )
    except (ConfigError, NoProgressError):
        reject()
    stats = json.loads(found.stats)
    counts = {"end": stats["end_ticks"], "instances": [one["steps"] for one in stats["instances"]]}
    return [column.tobytes() for column in found.columns.values()], counts


def test_leaping_is_stepping_where_runs_are_planned() -> None:
    @settings(max_examples=share(1))
    @given(case=limited())
    def check(case: Composed) -> None:
        assert outcome(case, leap=True) == outcome(case, leap=False)

    check()


def test_the_cases_reach_what_they_are_for() -> None:
    """Each kind of limit changes the steps of some case."""
    seen = dict.fromkeys(
        ("tokens", "chunk", "prefills", "long_prefills", "bucket", "adapters", "adapter_load"), 0
    )

    def all_seen(case: Composed) -> bool:
        steps = outcome(case, leap=True)
        for kind in (kind for kind, times in seen.items() if not times):
            part = "varying" if kind in ("tokens", "chunk") else "joining"
            without = {
                **case.config,
                "instances": [
                    {
                        **one,
                        "scheduler": {
                            **one["scheduler"],
                            part: {name: of for name, of in one["scheduler"][part].items() if name != kind},
                        },
                    }
                    for one in case.config["instances"]
                ],
            }
            other = Composed(
                requests=case.requests, config=without, prefix_block_tokens=case.prefix_block_tokens
            )
            seen[kind] += steps != outcome(other, leap=True)
        return min(seen.values()) >= 1

    find(limited(), all_seen, settings=settings(max_examples=400, phases=[Phase.generate]))


@pytest.mark.parametrize("leap", [False, True], ids=["step", "leap"])
def test_a_run_ends_where_a_limit_changes(leap: bool) -> None:
    """A step takes a tick. Row 0 has 4 + t tokens at t, and as many of 14 blocks once that step is formed.

    Row 1 comes at 1 with 10 tokens. With 12 tokens a step it wants a chunk of 10, and never finds 10 blocks.
    At 5, row 0 has 9 tokens, the budget falls to 4, and a chunk of 3 fits into the 5 blocks that are left.
    """
    one = wire.instance(14, budget=12, allocation="chunk")
    by_tokens = wire.op(
        "if",
        wire.op("gt", wire.field("inst.running_tokens"), wire.const(8)),
        wire.const(4),
        wire.const(12),
    )
    one["scheduler"] |= {
        "order": {"kind": "arrival"},
        "victim": "latest",
        "varying": {"tokens": {"least": 1, "of": by_tokens}},
    }
    case = Composed(requests=[TraceRequest(0, 4, 10), TraceRequest(1, 10, 1)], config=wire.cluster(one))
    found = engine(case, leap=leap)
    assert found.columns["scheduled"].tolist() == [0, 5]
    agree(case)
