"""INV-9: decisions do not see what has not happened."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from differential.engine import decisions, engine, rows_of_engine
from differential.strategies import OUTPUTS, Case, cases
from paceline.testing.reference import Request


def could_serve(case: Case, request: Request) -> list[bool]:
    """Return for each instance whether the whole sequence could ever fit: known at arrival, by INV-8."""
    return [config.refusal(request) is None for config, _ in case.instances]


@given(data=st.data(), case=cases(), leap=st.booleans())
def test_outputs_change_nothing_before_the_first_of_them_ends(
    data: st.DataObject, case: Case, leap: bool
) -> None:
    others = []
    for request in case.requests:
        other = replace(request, output_tokens=data.draw(st.just(request.output_tokens) | OUTPUTS))
        others.append(other if could_serve(case, other) == could_serve(case, request) else request)
    outcomes = [engine(each, leap=leap, record=True) for each in (case, replace(case, requests=others))]
    before, after = map(rows_of_engine, outcomes)
    ends = [
        row.finish
        for first, second, *rows in zip(case.requests, others, before, after, strict=True)
        if first != second
        for row in rows
        if row.finish is not None
    ]
    horizon = min(ends, default=2**63)
    for instance in range(len(case.instances)):
        seen = [
            [step for step in decisions(case, outcome, instance) if step[0] < horizon] for outcome in outcomes
        ]
        assert seen[0] == seen[1]
