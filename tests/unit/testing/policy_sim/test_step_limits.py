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


def adapted(*adapters: int | None, load: int, most: int) -> list[tuple[int, list[list[int]]]]:
    """Return the start of each step and its requests; each has a prompt of 2 tokens and one more."""
    one = instance(1000, allocation="chunk")
    joining = {"adapters": most, "adapter_load": load}
    one["scheduler"] |= {
        "stages": [{"kind": "running"}, ADMIT],
        "order": {"kind": "arrival"},
        "joining": joining,
    }
    requests = [TraceRequest(at, 2, 2, adapter=adapter) for at, adapter in enumerate(adapters)]
    return [
        (row[0], [entry[:2] for entry in row[1]]) for row in replay(cluster(one), requests).replicas[0].steps
    ]


def test_a_request_of_another_adapter_waits_while_as_many_run_as_may() -> None:
    """One slot, no time to load: row 1 waits for row 0, row 2 for row 1; row 3, of none, passes row 2."""
    assert adapted(7, 8, 7, None, load=0, most=1) == [
        (0, [[0, 2]]),
        (1, [[0, 1]]),
        (2, [[1, 2]]),
        (3, [[1, 1], [3, 2]]),
        (4, [[3, 1], [2, 2]]),
        (5, [[2, 1]]),
    ]


def test_an_adapter_is_loaded_once_and_the_oldest_gives_way() -> None:
    """Two slots, and 10 ticks to load one.

    Row 0 loads 7, until 11. Rows 1 and 2 have come by then: row 1 loads 8, and row 2 is of 7. Row 3, of 9,
    waits until both have ended; 7 was used last by row 2, which left after row 1. So 9 takes the slot of 8.
    """
    found = adapted(7, 8, 7, 9, load=10, most=2)
    assert found == [
        (0, [[0, 2]]),
        (11, [[0, 1], [1, 2], [2, 2]]),
        (22, [[1, 1], [2, 1]]),
        (23, [[3, 2]]),
        (34, [[3, 1]]),
    ]
