"""FastServe's queue, counted by hand after `MLFQ` of its code; a step takes a second, a block is 4 tokens."""

from __future__ import annotations

import pytest

from paceline.policies import fastserve
from paceline.policy import Swap
from paceline.result import Result
from unit.policies.scenario import Shape, run, times

SWAP = Swap(cpu_blocks=1000, out_s=0.0, in_s=0.0)
BOTH = pytest.mark.parametrize("leap", [True, False])


def ran(
    requests: list[Shape],
    *,
    leap: bool,
    seqs: int = 1,
    blocks: int = 100,
    base_s: float = 1.0,
    tokens: int = 100,
    starved_s: float = 1000.0,
    starved_every: int = 1000,
    free_blocks: int = 0,
    cpu_reserve: float = 0.0,
    cpu_blocks: int = 1000,
) -> Result:
    policy = fastserve(
        base_s=base_s,
        starved_s=starved_s,
        starved_every=starved_every,
        free_blocks=free_blocks,
        cpu_reserve=cpu_reserve,
        preemption=Swap(cpu_blocks=cpu_blocks, out_s=0.0, in_s=0.0),
        max_num_batched_tokens=tokens,
        max_num_seqs=seqs,
    )
    return run(policy, requests, blocks=blocks, leap=leap)


@BOTH
def test_a_request_sinks_when_it_has_run_for_longer_than_its_quantum(
    leap: bool,
) -> None:
    """One seat; quanta of 1, 2 and 4 s, and a prompt takes 1 s: both enter level 0.

    1 s of the first is not longer than 1 s, so that it runs in steps 1 and 2; then it sinks to level 1 and
    the second runs in steps 3 and 4. At level 1 each runs until 3 s are longer than 2 s: the second, which
    stopped last, in steps 5 to 7, the first in 8 to 10. At level 2 the first, which runs, finishes its 6
    tokens in step 11, and the second its own in step 12.
    """
    result = ran([(0.0, 4, 6), (0.0, 4, 6)], leap=leap)
    assert times(result, "first_token") == [1.0, 3.0]
    assert times(result, "finish") == [11.0, 12.0]
    assert times(result, "max_itl") == [6.0, 5.0]
    assert result.requests["preemptions"].to_list() == [0, 0]


@BOTH
def test_a_new_request_enters_where_its_prompt_fits_and_behind_those_that_ran(leap: bool) -> None:
    """Quanta of 0.5, 1 and 2 s: each prompt of 1 s enters level 1, and one seat is there.

    The first runs in steps 1 and 2, as 1 s is not longer than 1 s. The second arrives in step 1 and waits
    behind it at level 1, though it could sink no sooner. The first sinks to level 2 after step 2.
    """
    result = ran([(0.0, 4, 3), (0.5, 4, 2)], leap=leap, base_s=0.5)
    assert times(result, "first_token") == [1.0, 3.0]
    assert times(result, "finish") == [5.0, 4.0]


@BOTH
def test_decodes_use_no_tokens_and_prompts_are_not_cut(leap: bool) -> None:
    """Each step has 8 prompt tokens. The second prompt has 8, and the third waits for the step after it.

    The first request decodes beside both, though all tokens of these steps are the prompts'.
    """
    result = ran([(0.0, 4, 4), (0.5, 8, 1), (0.5, 1, 1)], leap=leap, seqs=4, tokens=8, base_s=100.0)
    assert times(result, "first_token") == [1.0, 2.0, 3.0]
    assert times(result, "finish") == [4.0, 2.0, 3.0]


@BOTH
def test_a_decode_behind_prompts_that_use_up_the_tokens_is_left_out(leap: bool) -> None:
    """Quanta of 1 and 2 s. After two steps the first request is at level 1, behind the prompt of the second.

    That has all 8 tokens of step 3; a decode is added only while there is one left.
    """
    result = ran([(0.0, 4, 4), (1.5, 8, 1)], leap=leap, seqs=4, tokens=8)
    assert times(result, "first_token") == [1.0, 3.0]
    assert times(result, "finish") == [5.0, 3.0]


@BOTH
def test_starved_requests_go_to_the_first_level_after_a_number_of_steps(leap: bool) -> None:
    """One seat; a step takes a second and a second more for each token; quanta of 1, 2, 4, 8, 16 and 32 s.

    The prompts take 5 and 30 s, and enter levels 3 and 5. The first request runs for 5 + 4 x 2 s in 5 steps
    and is at level 4 by then. Before the sixth step the second, which never ran, goes to the first level.
    """
    requests: list[Shape] = [(0.0, 4, 8), (0.0, 29, 1)]
    policy = fastserve(
        base_s=1.0,
        starved_s=1000.0,
        starved_every=5,
        free_blocks=0,
        cpu_reserve=0.0,
        preemption=SWAP,
        max_num_batched_tokens=100,
        max_num_seqs=1,
    )
    result = run(policy, requests, token_s=1.0, leap=leap)
    assert times(result, "first_token") == [5.0, 43.0]
    assert times(result, "finish") == [49.0, 43.0]


@BOTH
def test_each_step_leaves_blocks_free_and_swaps_out_the_last_of_the_lowest_level(leap: bool) -> None:
    """7 blocks, 2 of them to stay free; one seat; quanta of 1, 2 and 4 s.

    The first request holds 2 blocks when it sinks after step 2, and the second needs 3 at step 3: 5 in all.
    At step 4 it needs a fourth, and 2 are free: the first is swapped out.
    """
    result = ran([(0.0, 4, 4), (1.5, 12, 2)], leap=leap, blocks=7, free_blocks=2)
    assert times(result, "finish") == [6.0, 4.0]
    assert result.requests["preemptions"].to_list() == [1, 0]


@BOTH
def test_no_prompt_starts_while_the_swap_space_is_nearly_full(leap: bool) -> None:
    """As above, with a swap space of 4 blocks and a third request that arrives in step 4, at level 0.

    2 blocks are swapped out and 2 are free, less than 3 in 4: the third is passed over at step 5, and the
    first comes back. At step 6 the third starts.
    """
    requests: list[Shape] = [(0.0, 4, 4), (1.5, 12, 2), (3.5, 4, 1)]
    result = ran(requests, leap=leap, blocks=7, free_blocks=2, cpu_blocks=4, cpu_reserve=0.75)
    assert times(result, "first_token") == [1.0, 3.0, 6.0]
    assert times(result, "finish") == [7.0, 4.0, 6.0]
    result = ran(requests, leap=leap, blocks=7, free_blocks=2, cpu_blocks=4, cpu_reserve=0.5)
    assert times(result, "first_token") == [1.0, 3.0, 5.0]
