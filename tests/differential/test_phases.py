"""The end of reasoning and the start of the answer, against the reference's time of every token."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.engine import KINDS, NEVER, _as_log, _instance, reference
from differential.strategies import cases
from paceline import _native


@pytest.mark.parametrize("leap", [True, False])
@given(data=st.data())
def test_phases_change_with_the_tokens_that_change_them(leap: bool, data: Any) -> None:
    case = data.draw(cases(data.draw(st.sampled_from(["vllm", "vllm-v0", "layered"]))))
    shares = st.lists(st.floats(0, 1), min_size=len(case.requests), max_size=len(case.requests))
    reasoning = [
        int(share * request.output_tokens)
        for share, request in zip(data.draw(shares), case.requests, strict=True)
    ]
    log = _as_log(case, 0)
    columns = {
        "arrival_ticks": np.array([request.arrival for request in case.requests], dtype=np.uint64),
        "prompt_tokens": np.array([request.prompt_tokens for request in case.requests], dtype=np.uint32),
        "output_tokens": np.array([request.output_tokens for request in case.requests], dtype=np.uint32),
        "reasoning_tokens": np.array(reasoning, dtype=np.uint32),
        **KINDS[log.kind].columns(log),
    }
    instances = [_instance(case, index) for index in range(len(case.instances))]
    outcome = _native.run(
        instances, columns, routing=case.routing, until_ticks=case.until, leap=leap, record_decisions=False
    )
    times = [sequence.token_times for sequence in reference(case).sequences]

    def token(row: int, number: int) -> int:
        return times[row][number - 1] if 0 < number <= len(times[row]) else NEVER

    rows = range(len(case.requests))
    assert outcome.columns["reasoning_end"].tolist() == [token(row, reasoning[row]) for row in rows]
    assert outcome.columns["first_answer"].tolist() == [token(row, reasoning[row] + 1) for row in rows]
