"""Chunks that are cut to whole blocks: the tokens of each step, worked by hand."""

from __future__ import annotations

import pytest

import paceline
from paceline import Affine, Scheduler, Trace, inst, policies
from paceline.errors import ConfigError
from paceline.policies.tensorrt_llm import Capacity
from paceline.policy import Expr, Policy, where
from paceline.policy.stages import Admit, Decodes, Prefills, Running, Stage

BLOCK = 4
Steps = list[list[tuple[int, int]]]


def steps(
    prompts: list[int],
    *,
    budget: int | Expr = 10,
    threshold: int = 0,
    whole: bool = True,
    stages: tuple[Stage, ...] = (Running(), Admit()),
    output: list[int] | None = None,
) -> Steps:
    """Return the rows and tokens of each step."""
    trace = Trace.from_columns(
        arrival=[0.0] * len(prompts), prompt_tokens=prompts, output_tokens=output or [1] * len(prompts)
    )
    allocation = "chunk_if_output_fits" if Prefills() in stages else "chunk"
    scheduler = Scheduler(
        max_num_batched_tokens=budget,
        long_prefill_token_threshold=threshold,
        whole_block_chunks=whole,
        stages=stages,
        allocation=allocation,
    )
    instance = paceline.Instance(block_tokens=BLOCK, num_blocks=101, cost=Affine(step_s=1.0))
    result = paceline.replay(
        trace,
        paceline.Cluster([instance]),
        Policy(name="whole", scheduler=scheduler),
        record=(0.0, 100.0),
    )
    rows = result.steps.select("requests", "tokens").iter_rows()
    return [list(zip(requests, tokens, strict=True)) for requests, tokens in rows]


@pytest.mark.parametrize("stages", [(Running(), Admit()), (Prefills(), Admit(), Decodes())])
def test_only_the_last_chunk_of_a_prompt_may_end_within_a_block(stages: tuple[Stage, ...]) -> None:
    """Of 10 tokens 8 are whole blocks. The last chunk has the 5 that are left, the next prompt 4 more."""
    assert steps([21, 9], stages=stages) == [[(0, 8)], [(0, 8)], [(0, 5), (1, 4)], [(1, 5)]]


def test_without_it_chunks_fill_the_budget() -> None:
    assert steps([21, 9], whole=False) == [[(0, 10)], [(0, 10)], [(0, 1), (1, 9)]]


def test_an_admission_without_a_whole_block_waits() -> None:
    """The second prompt finds 3 tokens, fewer than a block. The third has 2, and waits behind it."""
    assert steps([7, 5, 2]) == [[(0, 7)], [(1, 5), (2, 2)]]


def test_a_running_prefill_without_a_whole_block_is_passed_over() -> None:
    """With five requests a step has 6 tokens: until they end, four decodes leave 2, fewer than a block."""
    short = [(row, 1) for row in range(1, 5)]
    expected = [[(0, 4), *short], short, short, [(0, 8)], [(0, 1)]]
    budget = where(inst.running >= 5, 6, 8)
    stages = (Decodes(), Prefills(), Admit())
    output = [1, 3, 3, 3, 3]
    assert steps([13, 1, 1, 1, 1], budget=budget, threshold=BLOCK, output=output, stages=stages) == expected


def test_a_block_that_is_larger_than_a_step_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"block_tokens.*must be at most the 3 tokens of a chunk.*was 4"):
        steps([9], budget=3)


@pytest.mark.parametrize("capacity", ["guaranteed_no_evict", "max_utilization", "static_batch"])
def test_tensorrt_llm_cuts_a_prompt_above_its_tokens_to_blocks_or_rejects_it(capacity: Capacity) -> None:
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[21], output_tokens=[1])
    instance = paceline.Instance(block_tokens=BLOCK, num_blocks=101, cost=Affine(step_s=1.0))
    status, steps = [], []
    for chunked in (False, True):
        policy = policies.tensorrt_llm(capacity=capacity, max_num_tokens=10, chunked_prefill=chunked)
        result = paceline.replay(trace, paceline.Cluster([instance]), policy, record=(0.0, 100.0))
        status += result.requests["status"].to_list()
        steps.append(result.steps["tokens"].to_list())
    assert status == ["rejected", "finished"]
    assert steps == [[], [[8], [8], [5]]]
