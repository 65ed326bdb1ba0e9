"""Sarathi-Serve: decodes in every step, prefill in what they leave. Each time is worked out by hand."""

from __future__ import annotations

import pytest

from paceline.errors import PolicyError
from paceline.policies import sarathi
from unit.policies.scenario import run, times

BOTH = pytest.mark.parametrize("leap", [True, False])


@BOTH
def test_a_chunk_fills_what_decodes_leave(leap: bool) -> None:
    """10 tokens a step; A is 4 in and 4 out, B 16 in and 2 out; 1 s a step and 10 ms a token.

    ====  ====================  ======  =======
    step  runs                  tokens  ends at
    ====  ====================  ======  =======
    1     A's prompt            4       1.04
    2     A, 9 tokens of B      10      2.14
    3     A, 7 tokens of B      8       3.22
    4     A, B                  2       4.24
    ====  ====================  ======  =======
    """
    policy = sarathi(chunk_size=10, max_num_seqs=4)
    result = run(policy, [(0, 4, 4), (0.5, 16, 2)], token_s=0.01, leap=leap)
    assert times(result, "scheduled") == [0.0, 1.04]
    assert times(result, "first_token") == [1.04, 3.22]
    assert times(result, "finish") == [4.24, 4.24]
    assert times(result, "max_itl") == [1.1, 1.02]


@BOTH
def test_admissions_leave_the_watermark_free(leap: bool) -> None:
    """Of 8 blocks, A takes 4 and leaves 4; B needs 3 and must leave 2 (a quarter of 9), so it waits for A."""
    requests = [(0, 16, 3), (0, 12, 1)]
    policy = sarathi(chunk_size=64, max_num_seqs=4, watermark=0.25)
    assert times(run(policy, requests, blocks=8, leap=leap), "first_token") == [1.0, 4.0]
    open_handed = sarathi(chunk_size=64, max_num_seqs=4, watermark=0.0)
    assert times(run(open_handed, requests, blocks=8, leap=leap), "first_token") == [1.0, 1.0]


@BOTH
def test_a_decode_needs_a_free_block_even_if_its_last_has_room(leap: bool) -> None:
    """A and B, 2 in and 3 out each, hold the two blocks; both have room in theirs.

    Yet A finds no free block at step 2, so B is preempted. No other request takes
    its block: B is admitted again at once and recomputes its 3 tokens. The same
    happens at step 3, with 4. 1 s a step and 10 ms a token: 4, 1 + 3 and 1 + 4 tokens.
    """
    policy = sarathi(chunk_size=8, max_num_seqs=2, watermark=0.0)
    result = run(policy, [(0, 2, 3), (0, 2, 3)], blocks=2, token_s=0.01, leap=leap)
    assert result.requests["preemptions"].to_list() == [0, 2]
    assert times(result, "first_token") == [1.04, 1.04]
    assert times(result, "finish") == [3.13, 3.13]


@BOTH
def test_a_prefill_is_preempted_for_a_decode(leap: bool) -> None:
    """8 tokens a step and 4 blocks of 4: A is 4 in and 8 out, B 12 in and 1 out.

    Step 1 runs A's prompt and 4 of B's tokens; the memory is full. At step 2 A
    needs a free block, so B loses its 3. It fits again when A ends at 8 s, and
    takes two steps, of 8 tokens and of 4.
    """
    policy = sarathi(chunk_size=8, max_num_seqs=4, watermark=0.0)
    result = run(policy, [(0, 4, 8), (0, 12, 1)], blocks=4, leap=leap)
    assert times(result, "finish") == [8.0, 10.0]
    assert times(result, "scheduled") == [0.0, 0.0]
    assert result.requests["preemptions"].to_list() == [0, 1]


def test_more_requests_than_tokens_of_a_step_are_an_error() -> None:
    with pytest.raises(
        PolicyError, match=r"max_num_seqs of sarathi must be chunk_size \(64\) or less, .*was 128"
    ):
        sarathi(chunk_size=64)
