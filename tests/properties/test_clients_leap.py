"""Clients that wait for answers, over every mechanism that the search draws: a leap is its steps."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline import _core
from paceline.errors import PacelineError
from search.case import NONE, Case, draw

NEVER = 2**64 - 1


@st.composite
def loads(draw_from: st.DrawFn) -> tuple[Case, dict[str, Any]]:
    """Draw a case of the search with clients, and its columns with sessions and think times."""
    case = draw(draw_from(st.integers(0, 50)), draw_from(st.integers(0, 2000)))
    columns, rows = case.columns(), len(case.requests)
    by_session = draw_from(st.booleans())
    limit = {
        "most": draw_from(st.integers(1, 4)),
        "gap": draw_from(st.sampled_from([0, 1, 5])),
        "by_session": by_session,
    }
    if "session" not in columns:
        names = st.sampled_from([0, min(1, rows - 1), NONE])
        drawn = draw_from(st.lists(names, min_size=rows, max_size=rows))
        columns["session"] = np.array(drawn, dtype=np.uint32)
    think = [0, 1, 7, 40] if by_session else [0, 1, 7, 40, NEVER]
    times = draw_from(st.lists(st.sampled_from(think), min_size=rows, max_size=rows))
    alone = columns["session"] == NONE
    columns["think_ticks"] = np.where(alone, np.uint64(NEVER), np.array(times, dtype=np.uint64))
    clients = draw_from(st.sampled_from([limit, limit, None]))
    return replace(case, config={**case.config, "clients": clients}), columns


def replayed(case: Case, columns: dict[str, Any], *, leap: bool) -> dict[str, Any] | str:
    """Return all of an outcome but the number of events, or what kind of error there was."""
    config = {**case.config, "leap": leap, "record_decisions": True}
    try:
        outcome = _core.replay(msgspec.json.encode(config), dict(columns), None)
    except PacelineError as error:
        return type(error).__name__
    stats = json.loads(outcome.stats)
    del stats["events"]
    timeline = {} if outcome.timeline is None else dict(outcome.timeline)
    return {
        "columns": {name: values.tobytes() for name, values in outcome.columns.items()},
        "stats": stats,
        "itl": outcome.itl.to_json(),
        "timeline": {name: np.asarray(values).tobytes() for name, values in timeline.items()},
        "decisions": [outcome.decisions(index) for index in range(len(case.config["instances"]))],
    }


@settings(max_examples=max(150, settings.default.max_examples))
@given(load=loads())
def test_leaping_changes_no_bit_of_a_closed_loop(load: tuple[Case, dict[str, Any]]) -> None:
    case, columns = load
    assert replayed(case, columns, leap=True) == replayed(case, columns, leap=False)


def test_most_of_the_draws_are_replayed() -> None:
    # Hypothesis draws some cases several times; each counts once.
    seen: dict[str, set[bytes]] = {"replayed": set(), "refused": set()}

    @settings(max_examples=400, database=None, derandomize=True)
    @given(load=loads())
    def count(load: tuple[Case, dict[str, Any]]) -> None:
        found = replayed(*load, leap=True)
        seen["refused" if isinstance(found, str) else "replayed"].add(load[0].to_json())

    count()
    replays, refusals = len(seen["replayed"]), len(seen["refused"])
    assert replays > 4 * refusals, (replays, refusals)
