"""Prompts that wait for others while requests decode: the tokens of each step, worked by hand."""

from __future__ import annotations

import pytest

import paceline
from paceline import Affine, Scheduler, Trace, policies
from paceline.errors import ConfigError, PolicyError
from paceline.policy import Admit, Pace, Policy, PromptBatch, Running

#: (arrival, prompt, output) of each request; a step takes a second.
Requests = list[tuple[float, int, int]]
Steps = list[list[tuple[int, int]]]
WHOLE = (Running(), Admit(chunked=False))


def steps(
    requests: Requests, batch: PromptBatch | None, *, blocks: int = 101, ahead: bool = False, seats: int = 9
) -> Steps:
    """Return the rows and tokens of each step, of 10 tokens, on blocks of 4."""
    arrival, prompt, output = zip(*requests, strict=True)
    trace = Trace.from_columns(arrival=arrival, prompt_tokens=prompt, output_tokens=output)
    scheduler = Scheduler(
        max_num_batched_tokens=10,
        max_num_seqs=seats,
        stages=WHOLE,
        allocation="chunk_if_output_fits",
        prompt_batch=batch,
        schedule_ahead=ahead,
    )
    instance = paceline.Instance(block_tokens=4, num_blocks=blocks, cost=Affine(step_s=1.0))
    policy = Policy(name="waits", scheduler=scheduler)
    result = paceline.replay(trace, paceline.Cluster([instance]), policy, record=(0.0, 100.0))
    rows = result.steps.select("requests", "tokens").iter_rows()
    return [list(zip(rows_of, tokens, strict=True)) for rows_of, tokens in rows]


def test_prompts_wait_until_the_step_has_enough_tokens() -> None:
    """One decode and prompts of 2 and 3 tokens are 6: the third prompt makes 8 with it."""
    requests = [(0.0, 5, 6), (0.5, 2, 1), (1.5, 3, 1), (3.5, 2, 1)]
    alone = [(0, 1)]
    expected = [[(0, 5)], alone, alone, alone, [(0, 1), (1, 2), (2, 3), (3, 2)], alone]
    assert steps(requests, PromptBatch(tokens=8, steps=9)) == expected


def test_without_it_a_prompt_is_admitted_as_soon_as_it_fits() -> None:
    assert steps([(0.0, 5, 3), (0.5, 2, 1)], None) == [[(0, 5)], [(0, 1), (1, 2)], [(0, 1)]]


def test_prompts_wait_for_no_more_steps_than_allowed() -> None:
    """Two steps hold the prompt back, and the third admits it. For the next one they are counted anew."""
    requests = [(0.0, 5, 8), (0.5, 2, 1), (3.5, 2, 1)]
    alone = [(0, 1)]
    both = [[(0, 5)], alone, alone, [(0, 1), (1, 2)], alone, alone, [(0, 1), (2, 2)], alone]
    assert steps(requests, PromptBatch(tokens=8, steps=2)) == both


def test_steps_without_a_prompt_are_not_counted_and_do_not_end_the_count() -> None:
    """A prompt waits for two steps, and is admitted once nothing decodes: the next one waits for one."""
    requests = [(0.0, 5, 3), (0.5, 2, 5), (3.5, 2, 1)]
    expected = [[(0, 5)], [(0, 1)], [(0, 1)], [(1, 2)], [(1, 1)], [(1, 1), (2, 2)], [(1, 1)], [(1, 1)]]
    assert steps(requests, PromptBatch(tokens=8, steps=3)) == expected


def test_prompts_that_do_not_fit_do_not_count() -> None:
    """Of prompts of 5 and 6 tokens one fits beside a decode, so that a step has 6, and not 12."""
    requests = [(0.0, 5, 4), (0.5, 5, 1), (0.5, 6, 1)]
    expected = [[(0, 5)], [(0, 1)], [(0, 1)], [(0, 1)], [(1, 5)], [(2, 6)]]
    assert steps(requests, PromptBatch(tokens=7, steps=9)) == expected


def test_a_prompt_counts_only_with_the_memory_for_its_output() -> None:
    """Of five blocks the decode takes three to its end, so that one prompt has its block, and not both."""
    requests = [(0.0, 5, 4), (0.5, 2, 2), (0.5, 5, 2)]
    few, many = (steps(requests, PromptBatch(tokens=8, steps=9), blocks=blocks) for blocks in (5, 9))
    assert few[1:4] == [[(0, 1)], [(0, 1)], [(0, 1)]]
    assert many[1] == [(0, 1), (1, 2), (2, 5)]


def test_a_prompt_counts_only_with_a_seat() -> None:
    requests = [(0.0, 5, 4), (0.5, 2, 1), (0.5, 5, 1)]
    assert steps(requests, PromptBatch(tokens=8, steps=9), seats=2)[1:4] == [[(0, 1)]] * 3


def test_a_step_decided_ahead_holds_back_what_it_knows() -> None:
    """The step at 2 s is decided at 1 s, when it knows the prompt of 0.5 s; two steps hold it back."""
    expected = [[(0, 5)], [(0, 1)], [(0, 1)], [(0, 1)], [(0, 1), (1, 2)]]
    found = steps([(0.0, 5, 8), (0.5, 2, 1)], PromptBatch(tokens=8, steps=2), ahead=True)
    assert found[:5] == expected


def test_a_pace_is_refused() -> None:
    scheduler = Scheduler(stages=WHOLE, prompt_batch=PromptBatch(tokens=8, steps=2))
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[1], output_tokens=[1])
    instance = paceline.Instance(block_tokens=4, num_blocks=9, cost=Affine(step_s=1.0))
    policy = Policy(name="waits", scheduler=scheduler)
    with pytest.raises(ConfigError, match=r"must hold no prompts back .*where readers have a pace"):
        paceline.replay(trace, paceline.Cluster([instance]), policy, pace=Pace(tpot=0.2))


def test_tensorrt_llm_waits_for_a_share_of_its_tokens() -> None:
    """Of 8,192 tokens 0.8 are 6,553.6: a step of 6,553 is too small."""
    policy = policies.tensorrt_llm(batch_wait_timeout_iters=40, batch_wait_max_tokens_ratio=0.8)
    assert policy.scheduler.prompt_batch == PromptBatch(tokens=6554, steps=40)
    assert policies.tensorrt_llm(batch_wait_timeout_iters=40).scheduler.prompt_batch is None
    with pytest.raises(PolicyError, match="batch_wait_max_tokens_ratio 0 to 1"):
        policies.tensorrt_llm(batch_wait_timeout_iters=1, batch_wait_max_tokens_ratio=1.5)


def test_a_batch_of_no_steps_is_refused() -> None:
    with pytest.raises(PolicyError, match="steps of a PromptBatch must be 1"):
        PromptBatch(tokens=8, steps=0)
