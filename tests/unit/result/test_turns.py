"""Turns that arrive before the answer before them: steps take a second each."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import paceline
from paceline.errors import SessionWarning

SERVER = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=1.0), num_blocks=99)])


def trace(arrivals: list[float], sessions: list[str | None] | None, tokens: int = 3) -> paceline.Trace:
    n = len(arrivals)
    columns = {} if sessions is None else {"session": sessions}
    return paceline.Trace.from_columns(
        arrival=arrivals, prompt_tokens=[8] * n, output_tokens=[tokens] * n, **columns
    )


def test_turns_before_the_answer_before_them_are_counted(tmp_path: Path) -> None:
    # Each answer takes three seconds: of a, the second turn arrives at 2, before 3, and the third after the
    # second has ended; the one of b waits for none of a; rows without a session are no turns.
    early = trace([0.0, 1.0, 2.0, 9.0, 9.5], ["a", "b", "a", "a", None])
    with pytest.warns(SessionWarning, match="before the answer before them"):
        result = paceline.replay(early, SERVER)
    assert result.totals().early_turns == 1
    assert paceline.load_result(result.save(tmp_path / "saved")).totals().early_turns == 1


def test_a_turn_at_the_end_of_the_answer_before_it_is_not_early() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = paceline.replay(trace([0.0, 3.0], ["a", "a"]), SERVER)
        assert result.totals().early_turns == 0
        assert paceline.replay(trace([0.0, 1.0], None), SERVER).totals().early_turns is None


def test_a_turn_after_an_unfinished_one_is_early_and_one_after_a_rejected_one_is_not() -> None:
    with pytest.warns(SessionWarning):
        result = paceline.replay(trace([0.0, 4.0, 30.0], ["a", "a", "a"], tokens=20), SERVER, until=10.0)
    assert result.totals().early_turns == 1, "the third has not arrived"
    hopeless = paceline.Trace.from_columns(
        arrival=[0.0, 0.5], prompt_tokens=[99_999, 8], output_tokens=[3, 3], session=["a", "a"]
    )
    result = paceline.replay(hopeless, SERVER)
    assert result.requests["status"][0] == "rejected"
    assert result.totals().early_turns == 0
