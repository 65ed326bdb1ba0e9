"""vllm-ltr, counted by hand after `_general_schedule` of its code.

A step takes a second, and a block holds 4 tokens.
"""

from __future__ import annotations

import pytest

from paceline.policies import vllm_ltr
from paceline.policy import Swap
from paceline.result import Result
from unit.policies.scenario import Shape, run, times

SWAP = Swap(cpu_blocks=1000, out_s=0.0, in_s=0.0)


def ran(
    requests: list[Shape],
    score: list[float],
    *,
    tokens: int = 100,
    seqs: int = 4,
    blocks: int = 100,
    starved_steps: int = 200,
    hold: int = 10,
    leap: bool = True,
) -> Result:
    policy = vllm_ltr(
        starved_steps=starved_steps,
        hold=hold,
        preemption=SWAP,
        max_num_batched_tokens=tokens,
        max_num_seqs=seqs,
        watermark=0.0,
    )
    return run(policy, requests, blocks=blocks, leap=leap, score=score)


BOTH = pytest.mark.parametrize("leap", [True, False])


@BOTH
def test_tokens_go_to_the_better_rank_first_and_a_request_left_out_keeps_its_memory(leap: bool) -> None:
    """The second request arrives in the second step, with the better score and a prompt of 6 tokens.

    The third step has 4 tokens, all for the prompt. The fourth has 2 for its rest, and one for the first
    request, which was left out of the third with its KV.
    """
    result = ran([(0.0, 4, 5), (1.5, 6, 2)], [2.0, 1.0], tokens=4, seqs=2, leap=leap)
    assert times(result, "first_token") == [1.0, 4.0]
    assert times(result, "finish") == [6.0, 5.0]
    assert times(result, "max_itl") == [2.0, 1.0]
    assert result.requests["preemptions"].to_list() == [0, 0]


@BOTH
def test_a_selected_request_is_swapped_out_where_blocks_are_lacking_for_all_selected(leap: bool) -> None:
    """6 blocks. The first request holds 3 of them after two steps, the second needs 3.

    Third step: 3 blocks for the prompt and 1 for the first request, but 3 are free: the first is dropped and
    swapped out. Fourth step: 1 for the second, 3 + 1 for the first, but 3 are free. Then the second is
    finished, and the first generates its other 8 tokens from 4 s on.
    """
    result = ran([(0.0, 8, 10), (1.5, 12, 2)], [2.0, 1.0], blocks=6, leap=leap)
    assert times(result, "first_token") == [1.0, 3.0]
    assert times(result, "finish") == [12.0, 4.0]
    assert result.requests["preemptions"].to_list() == [1, 0]
    assert result.stats.instances[0].swapped_out_blocks == 3


@BOTH
def test_a_request_with_kv_counts_a_block_though_it_needs_none(leap: bool) -> None:
    """4 blocks. After the first step the requests hold 1 and 2, with room for 3 more tokens of the second.

    Second step: a block for each, but one is free: the second is swapped out. It needs 2 + 1 blocks to come
    back, which are free once the first has finished at 4 s.
    """
    result = ran([(0.0, 4, 4), (0.0, 5, 3)], [1.0, 2.0], blocks=4, leap=leap)
    assert times(result, "finish") == [4.0, 6.0]
    assert result.requests["preemptions"].to_list() == [0, 1]


@BOTH
def test_left_out_requests_are_preempted_before_selected_ones_the_worst_rank_first(leap: bool) -> None:
    """One seat, 6 blocks. Three requests of 4 prompt tokens arrive with ever better scores.

    Each takes the seat when it comes, so that from 2 s on the first two are left out with a block each. The
    last computes its (4 + k)th token from (2 + k) s on. At 12 s it holds 4 blocks and counts one more: the
    worst of the others is preempted. It is finished at 16 s, the second at 18 s, the first at 20 s.
    """
    requests = [(0.0, 4, 3), (0.5, 4, 3), (1.5, 4, 14)]
    result = ran(requests, [3.0, 2.0, 1.0], seqs=1, blocks=6, leap=leap)
    assert times(result, "first_token") == [1.0, 2.0, 3.0]
    assert times(result, "finish") == [20.0, 18.0, 16.0]
    assert result.requests["preemptions"].to_list() == [1, 0, 0]


@BOTH
def test_a_starving_request_ranks_first_for_a_number_of_steps(leap: bool) -> None:
    """One seat; after 2 idle steps a request is first for 2 steps, so that two requests alternate by twos.

    The first runs in steps 1, 2, 5, 6, 9 and 10, the second in 3, 4, 7 and 8.
    """
    requests = [(0.0, 4, 6), (0.0, 4, 4)]
    result = ran(requests, [1.0, 2.0], tokens=4, seqs=1, starved_steps=2, hold=2, leap=leap)
    assert times(result, "first_token") == [1.0, 3.0]
    assert times(result, "finish") == [10.0, 8.0]
    assert times(result, "max_itl") == [3.0, 3.0]


@BOTH
def test_a_step_that_computes_a_part_of_a_prompt_counts_towards_the_period(leap: bool) -> None:
    """As above, with a prompt of two steps: they are the second request's first period."""
    requests = [(0.0, 4, 6), (0.0, 8, 2)]
    result = ran(requests, [1.0, 2.0], tokens=4, seqs=1, starved_steps=2, hold=2, leap=leap)
    assert times(result, "first_token") == [1.0, 4.0]
    assert times(result, "finish") == [9.0, 7.0]
