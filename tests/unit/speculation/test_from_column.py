"""Acceptance lengths of a trace's column: schedules by hand, and rows that have none."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import paceline
from paceline import (
    AcceptanceLength,
    Affine,
    Cluster,
    ConfigError,
    FromColumn,
    Instance,
    Simulation,
    Speculation,
    Trace,
    TraceError,
    policies,
)


def drafting(acceptance: Any, tokens: int = 2) -> Instance:
    speculation = Speculation(tokens=tokens, acceptance=acceptance, method="ngram")
    return Instance(cost=Affine(step_s=1.0), num_blocks=1000, speculation=speculation)


def trace_of(ratios: list[Any], output: int = 11) -> Trace:
    count = len(ratios)
    return Trace.from_columns(
        arrival=[0.0] * count,
        prompt_tokens=[5] * count,
        output_tokens=[output] * count,
        speculation_ratio=ratios,
    )


def ends(trace: Trace, acceptance: Any, **fields: Any) -> list[float]:
    result = paceline.replay(trace, Cluster([drafting(acceptance)]), policies.vllm(**fields))
    found: list[float] = result.requests["e2e"].to_list()
    return found


def test_each_request_has_its_own_length() -> None:
    # After the prompt's step, ten tokens: at 2.5 a step 2, 3, 2, 3; at 1 one each; at 3 four steps, the last
    # trimmed; at 1.25 one each but for the fourth step and the eighth, which is the last.
    found = ends(trace_of([2.5, 1.0, 3.0, 1.25]), FromColumn("speculation_ratio"))
    assert found == [1.0 + steps for steps in (4, 10, 4, 8)]


def test_a_scale_and_an_offset_make_lengths_of_other_numbers() -> None:
    accepted = FromColumn("speculation_ratio", scale=0.01, offset=1.0)
    assert ends(trace_of([150.0, 0.0]), accepted) == [1.0 + 4, 1.0 + 10]


def test_one_length_in_all_rows_is_an_acceptance_length() -> None:
    trace = trace_of([2.4] * 5, output=57)
    assert ends(trace, FromColumn("speculation_ratio")) == ends(trace, AcceptanceLength(2.4))


@pytest.mark.parametrize(
    ("ratios", "rule"),
    [
        ([1.5, None], "speculation_ratio of row 1 must be a number, was null"),
        ([1.5, 3.5], "row 1 must be 1 to 3 tokens a step with 2 drafts, was 3.5, which is 3.5"),
        ([0.5, 1.5], "row 0 must be 1 to 3 tokens"),
        ([float("nan")], "row 0 must be 1 to 3 tokens"),
        (["much"], "column 'speculation_ratio' must hold numbers, was String"),
    ],
)
def test_a_row_without_a_length_is_refused(ratios: list[Any], rule: str) -> None:
    with pytest.raises(TraceError, match=rule):
        ends(trace_of(ratios), FromColumn("speculation_ratio"))


def test_a_trace_without_the_column_is_refused() -> None:
    with pytest.raises(
        TraceError, match="must have the column 'ratio', which a FromColumn names, had arrival"
    ):
        ends(trace_of([1.0]), FromColumn("ratio"))


def test_requests_from_outside_have_no_column() -> None:
    with pytest.raises(ConfigError, match="must not be a FromColumn where requests are submitted"):
        Simulation(Cluster([drafting(FromColumn("ratio"))]), policies.vllm())


def test_it_survives_toml() -> None:
    instance = drafting(FromColumn("ratio", scale=2.0))
    assert Instance.from_toml(instance.to_toml()) == instance


def test_numbers_are_rounded_to_thousandths() -> None:
    frame = pl.DataFrame({"ratio": [1.23456]})
    assert FromColumn("ratio").lengths(frame, 2)["numerators"] == [1235]
