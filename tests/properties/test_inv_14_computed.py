"""INV-14: what is computed was asked for."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from differential.engine import decisions, engine, rows_of_engine
from differential.strategies import KINDS, Case, Kind, cases


@given(data=st.data(), kind=st.sampled_from(KINDS), leap=st.booleans())
def test_prefilled_decoded_and_hit_tokens_are_those_of_the_requests(
    data: st.DataObject, kind: Kind, leap: bool
) -> None:
    case: Case = data.draw(cases(kind))
    outcome = engine(case, leap=leap)
    asked = [0] * len(case.instances)
    for request, row in zip(case.requests, rows_of_engine(outcome), strict=True):
        if row.instance is not None:
            # A request that was dropped has computed on all the tokens it yielded but the last.
            asked[row.instance] += request.prompt_tokens + max(0, row.generated - 1)
    for of, tokens in zip(json.loads(outcome.stats)["instances"], asked, strict=True):
        assert of["prefix_hits"] <= of["prefix_queries"]
        did = of["prefill_tokens"] + of["decode_tokens"] + of["prefix_hits"]
        assert did >= tokens
        assert of["preemptions"] > 0 or did == tokens


@given(case=cases("vllm-cached"), leap=st.booleans())
def test_the_counters_are_the_sums_of_the_decisions(case: Case, leap: bool) -> None:
    outcome = engine(case, leap=leap, record=True)
    for index, of in enumerate(json.loads(outcome.stats)["instances"]):
        steps = decisions(case, outcome, index)
        computed = sum(tokens for step in steps for _, tokens, _ in step[1])
        assert of["prefill_tokens"] + of["decode_tokens"] == computed
        assert of["steps"] == len(steps)
