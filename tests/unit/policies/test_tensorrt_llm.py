"""TensorRT-LLM's capacity policies, on two requests whose blocks are counted by hand."""

from __future__ import annotations

import pytest

import paceline
from paceline.errors import PolicyError
from paceline.policies import tensorrt_llm

#: Each takes 3 blocks of 10 tokens for its prompt, and 6 until it ends.
TRACE = paceline.Trace.from_columns(arrival=[0.0, 0.5], prompt_tokens=[30, 30], output_tokens=[30, 30])


def replayed(policy: paceline.Policy, blocks: int) -> paceline.Result:
    # One block more, as vLLM keeps one that no request gets.
    instance = paceline.Instance(cost=paceline.Affine(step_s=1.0), num_blocks=blocks + 1, block_tokens=10)
    return paceline.replay(TRACE, paceline.Cluster([instance]), policy)


@pytest.mark.parametrize(("blocks", "waits"), [(12, False), (11, True)])
def test_a_request_is_admitted_once_its_output_fits_beside_those_of_the_running(
    blocks: int, waits: bool
) -> None:
    result = replayed(tensorrt_llm(overlap_scheduler=False), blocks)
    # The first one's steps end at 1 to 30 s. The second is admitted at 1 s, or once the first has ended.
    assert result.requests["ttft"].to_list() == [1.0, 30.5 if waits else 1.5]
    assert result.requests["preemptions"].to_list() == [0, 0]


def test_the_use_of_memory_is_most_where_the_latest_arrival_is_preempted_for_the_earlier() -> None:
    result = replayed(tensorrt_llm(capacity="max_utilization"), 11)
    assert result.requests["ttft"].to_list() == [1.0, 1.5]
    assert result.requests["preemptions"].to_list() == [0, 1]


def test_a_static_batch_takes_no_request_while_it_runs() -> None:
    result = replayed(tensorrt_llm(capacity="static_batch", overlap_scheduler=False), 100)
    assert result.requests["ttft"].to_list() == [1.0, 30.5]


def test_an_overlapped_schedule_is_refused_with_most_use_of_memory() -> None:
    with pytest.raises(
        PolicyError, match="overlap_scheduler must be False or None where capacity is 'max_ut"
    ):
        tensorrt_llm(capacity="max_utilization", overlap_scheduler=True)
