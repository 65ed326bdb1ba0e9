"""Reasoning and answering, as moments of a result."""

from __future__ import annotations

import pytest

import paceline


def replayed(reasoning: list[int] | None) -> paceline.Result:
    """Two requests of four tokens each, one after the other, at a second a step."""
    columns = {} if reasoning is None else {"reasoning_tokens": reasoning}
    trace = paceline.Trace.from_columns(
        arrival=[0.0, 100.0], prompt_tokens=[8, 8], output_tokens=[4, 4], **columns
    )
    cost = paceline.Affine(step_s=1.0)
    cluster = paceline.Cluster([paceline.Instance(cost=cost, num_blocks=11)])
    return paceline.replay(trace, cluster)


def test_the_answer_starts_with_the_token_after_reasoning() -> None:
    requests = replayed([3, 1]).requests
    assert requests["reasoning_end"].to_list() == [3.0, 101.0]
    assert requests["first_answer"].to_list() == [4.0, 102.0]
    assert requests["ttfat"].to_list() == [1.0, 1.0]


def test_without_reasoning_the_first_token_is_the_first_of_the_answer() -> None:
    requests = replayed([0, 0]).requests
    assert requests["first_answer"].to_list() == requests["first_token"].to_list()
    assert requests["reasoning_end"].to_list() == requests["ttfat"].to_list() == [None, None]


def test_reasoning_that_uses_all_tokens_up_leaves_no_answer() -> None:
    requests = replayed([4, 4]).requests
    assert requests["reasoning_end"].to_list() == requests["finish"].to_list()
    assert requests["first_answer"].to_list() == [None, None]


@pytest.mark.parametrize(("reasoning", "told"), [(None, False), ([3, 1], True)])
def test_the_summary_has_the_metrics_of_reasoning_if_the_trace_has_it(
    reasoning: list[int] | None, told: bool
) -> None:
    metrics = replayed(reasoning).summary()["metric"].to_list()
    assert ("ttfat" in metrics) is told
