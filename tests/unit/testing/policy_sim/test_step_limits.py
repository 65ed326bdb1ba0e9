"""Limits that vary and prompts that are passed over, in the reference, worked out by hand.

A step takes a tick and a block holds a token. A step has its requests as [row, tokens, computed before].
"""

from __future__ import annotations

from typing import Any

from differential.wire import Wire, cluster, const, field, instance, op
from paceline.testing.reference.policy_sim import TraceRequest, replay

ADMIT: Wire = {
    "kind": "admit",
    "chunked": True,
    "unless_preempted": False,
    "unless_swapped": False,
    "count_decodes": True,
    "gather": None,
}


def steps(requests: list[TraceRequest], *, budget: int = 1000, **rules: Any) -> list[list[list[int]]]:
    one = instance(1000, budget=budget, allocation="chunk")
    stages = [{"kind": "running"}, ADMIT]
    one["scheduler"] |= {"stages": stages, "order": {"kind": "arrival"}, "victim": "latest", **rules}
    return [row[1] for row in replay(cluster(one), requests).replicas[0].steps]


def by_running(more_than: int, then: int, otherwise: int) -> Wire:
    return op("if", op("gt", field("inst.running"), const(more_than)), const(then), const(otherwise))


def test_a_budget_is_that_of_the_instance_before_the_step() -> None:
    """Of two prompts of 10, 12 tokens fit while nothing runs, then 4 a step: a decode, and a chunk of 3."""
    varying = {"tokens": {"least": 1, "of": by_running(0, 4, 12)}}
    found = steps([TraceRequest(0, 10, 3), TraceRequest(0, 10, 1)], budget=12, varying=varying)
    assert found == [
        [[0, 10, 0], [1, 2, 0]],
        [[0, 1, 10], [1, 3, 2]],
        [[0, 1, 11], [1, 3, 5]],
        [[1, 2, 8]],
    ]


def test_a_budget_is_rounded_down_and_at_least_the_least() -> None:
    varying = {"tokens": {"least": 2, "of": op("div", const(11), op("add", const(2), field("inst.running")))}}
    # 11 / 2 = 5.5 tokens; then 11 / 3 = 3.67, a step.
    assert steps([TraceRequest(0, 9, 1)], varying=varying) == [[[0, 5, 0]], [[0, 3, 5]], [[0, 1, 8]]]
    varying = {"tokens": {"least": 2, "of": const(-3)}}
    assert steps([TraceRequest(0, 4, 1)], varying=varying) == [[[0, 2, 0]], [[0, 2, 2]]]


def test_a_threshold_is_evaluated_for_each_step() -> None:
    """Two requests are there at 0, and one of them runs from then on."""
    varying = {"chunk": by_running(1, 2, 3)}
    found = steps([TraceRequest(0, 7, 1), TraceRequest(0, 5, 1)], varying=varying)
    # The second is alone in the last step, where no threshold applies.
    assert found == [[[0, 3, 0], [1, 3, 0]], [[0, 2, 3], [1, 2, 3]], [[0, 2, 5]]]


def test_at_the_limit_of_prefills_no_prompt_is_admitted() -> None:
    """Eight tokens a step: the first prompt takes two steps, in both of which the second waits."""
    requests = [TraceRequest(0, 10, 2), TraceRequest(0, 3, 1), TraceRequest(0, 2, 1)]
    found = steps(requests, budget=8, joining={"prefills": 1})
    assert found == [[[0, 8, 0]], [[0, 2, 8]], [[0, 1, 10], [1, 3, 0]], [[2, 2, 0]]]


def test_shorter_prompts_are_admitted_before_a_second_long_one() -> None:
    """Above 4 tokens a prompt is long: rows 0 and 1. Row 2 passes row 1, which joins once row 0 lacks 4."""
    requests = [TraceRequest(0, 8, 1), TraceRequest(0, 6, 1), TraceRequest(0, 2, 1)]
    found = steps(requests, long_prefill_token_threshold=4, joining={"long_prefills": 1})
    assert found == [[[0, 4, 0], [2, 2, 0]], [[0, 4, 4], [1, 4, 0]], [[1, 2, 4]]]


def test_a_batch_has_requests_of_one_bucket() -> None:
    """Rows 0 and 2 are below 10 tokens, rows 1 and 3 are not: these start once the first two have ended."""
    requests = [TraceRequest(0, prompt, 2) for prompt in (3, 12, 4, 11)]
    bucket = op("floordiv", field("req.prompt_tokens"), const(10))
    assert steps(requests, joining={"bucket": bucket}) == [
        [[0, 3, 0], [2, 4, 0]],
        [[0, 1, 3], [2, 1, 4]],
        [[1, 12, 0], [3, 11, 0]],
        [[1, 1, 12], [3, 1, 11]],
    ]
