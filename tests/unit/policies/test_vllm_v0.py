"""vLLM 0.6.1: whole prompts first. Each time is worked out by hand; a step takes a second."""

from __future__ import annotations

import pytest

from paceline.policies import vllm_v0
from unit.policies.scenario import run, times

BOTH = pytest.mark.parametrize("leap", [True, False])


@BOTH
def test_decodes_wait_for_prompts(leap: bool) -> None:
    """A runs in step 1; B's prompt has step 2 to itself, and A's second token comes with B's at step 3."""
    result = run(vllm_v0(max_num_batched_tokens=20), [(0, 4, 2), (0.5, 8, 2)], leap=leap)
    assert times(result, "first_token") == [1.0, 2.0]
    assert times(result, "finish") == [3.0, 3.0]
    assert times(result, "max_itl") == [2.0, 1.0]


@BOTH
def test_a_prompt_that_has_outgrown_a_step_is_dropped_for_the_next_in_the_queue(leap: bool) -> None:
    """20 tokens a step, 3 seats, 65 blocks of 1; A, B (1 in, 1 out), C, D (1, 20), E (10, 19), F (1, 1).

    Step 1 runs A, B and C, step 2 D and E. Then three decode: after step 2 + k they
    hold 12 + 3k blocks, 63 after step 19. At step 20 C and D take the last two, and
    E is preempted. Its 28 tokens fit no step any more, so it is dropped at step 21,
    which goes to F's prompt; C and D have their last token at step 22.
    """
    policy = vllm_v0(max_num_batched_tokens=20, max_num_seqs=3)
    requests = [(0, 1, 1), (0, 1, 1), (0, 1, 20), (0, 1, 20), (0, 10, 19), (0, 1, 1)]
    result = run(policy, requests, blocks=65, block_tokens=1, leap=leap)
    assert times(result, "finish") == [1.0, 1.0, 22.0, 22.0, None, 21.0]
    assert result.requests["status"].to_list()[4] == "rejected"
    assert result.requests["generated_tokens"].to_list()[4] == 18
