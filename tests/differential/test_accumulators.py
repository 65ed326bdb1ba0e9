"""Accumulators: the engine against the reference, and leaping against stepping."""

from __future__ import annotations

from hypothesis import given

from differential.accumulators import accumulating
from differential.policies import WireCase
from differential.test_policies import (
    BOTH,
    agree_on_decisions,
    agree_on_requests,
    agree_on_usage,
    reference,
)


@given(case=accumulating(moves=False))
def test_ranks_by_accumulators_decide_every_step_as_the_reference_does(case: WireCase) -> None:
    expected = reference(case)
    for leap in BOTH:
        agree_on_decisions(case, expected, leap=leap)
        agree_on_requests(case, expected, leap=leap)
        agree_on_usage(case, expected, leap=leap)


@given(case=accumulating())
def test_requests_that_migrate_are_charged_where_they_are(case: WireCase) -> None:
    expected = reference(case)
    for leap in BOTH:
        agree_on_decisions(case, expected, leap=leap)
        agree_on_requests(case, expected, leap=leap)
