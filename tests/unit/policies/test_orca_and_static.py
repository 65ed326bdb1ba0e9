"""Orca and static batching: whole prompts, by the step and by the batch. Each time is worked out by hand."""

from __future__ import annotations

import pytest

import paceline
from paceline.errors import PolicyError
from paceline.policies import authors_orca, orca, static
from unit.policies.scenario import run, times

BOTH = pytest.mark.parametrize("leap", [True, False])


@BOTH
def test_orca_runs_whole_prompts_beside_decodes(leap: bool) -> None:
    """Two seats; A is 4 in and 3 out, B 20 in and 2 out, C 2 in and 1 out; 1 s a step and 10 ms a token.

    ====  ===============  ======  =======
    step  runs             tokens  ends at
    ====  ===============  ======  =======
    1     A's prompt       4       1.04
    2     A, B's prompt    21      2.25
    3     A, B             2       3.27
    4     C's prompt       2       4.29
    ====  ===============  ======  =======
    """
    requests = [(0, 4, 3), (0.5, 20, 2), (0.6, 2, 1)]
    result = run(orca(max_num_seqs=2), requests, token_s=0.01, leap=leap)
    assert times(result, "first_token") == [1.04, 2.25, 4.29]
    assert times(result, "finish") == [3.27, 3.27, 4.29]
    assert times(result, "max_itl") == [1.21, 1.02, None]


@BOTH
def test_orca_cuts_no_prompt_however_long(leap: bool) -> None:
    result = run(orca(), [(0, 50_000, 1), (0, 30_000, 1)], blocks=20_000, leap=leap)
    assert times(result, "finish") == [1.0, 1.0]


@BOTH
def test_the_authors_orca_admits_before_it_counts_decodes(leap: bool) -> None:
    """With one seat, B's prompt takes A's seat: A's second token is a step later, after B finishes."""
    requests = [(0, 4, 2), (0.5, 4, 1)]
    assert times(run(authors_orca(max_num_seqs=1), requests, leap=leap), "finish") == [3.0, 2.0]
    assert times(run(orca(max_num_seqs=1), requests, leap=leap), "finish") == [2.0, 3.0]


@BOTH
def test_no_request_joins_a_running_batch(leap: bool) -> None:
    """Batches of two, or half a second; each step takes a second.

    A waits 0.5 s alone and runs for three steps. B and C make a full batch at
    3.5 s; B finishes at 4.5 s, but D starts only when C has finished too.
    """
    requests = [(0, 4, 3), (2.0, 4, 1), (2.1, 4, 2), (2.2, 4, 1)]
    result = run(static(size=2, wait_s=0.5), requests, leap=leap)
    assert times(result, "scheduled") == [0.5, 3.5, 3.5, 5.5]
    assert times(result, "finish") == [3.5, 4.5, 5.5, 6.5]


@BOTH
def test_a_full_batch_does_not_wait(leap: bool) -> None:
    """Three at 0 and batches of three start at once; the second batch waits 10 s for its third."""
    requests = [(0, 4, 1), (0, 4, 1), (0, 4, 1), (2.0, 4, 1), (3.0, 4, 1)]
    result = run(static(size=3, wait_s=10.0), requests, leap=leap)
    assert times(result, "scheduled") == [0.0, 0.0, 0.0, 12.0, 12.0]


@BOTH
def test_the_last_to_arrive_completes_a_batch(leap: bool) -> None:
    result = run(static(size=2, wait_s=10.0), [(0, 4, 1), (3.25, 4, 1)], leap=leap)
    assert times(result, "scheduled") == [3.25, 3.25]


@BOTH
def test_a_batch_of_all_waiting_requests(leap: bool) -> None:
    result = run(static(size=8, wait_s=0.0), [(0, 4, 2), (0.5, 4, 1), (1.5, 4, 1)], leap=leap)
    assert times(result, "scheduled") == [0.0, 2.0, 2.0]


def test_a_batch_has_a_size_and_a_wait() -> None:
    with pytest.raises(PolicyError, match="size of a Gather must be 1 or more requests, was 0"):
        static(size=0)
    with pytest.raises(PolicyError, match=r"wait_s of a Gather must be 0 or more seconds, was -1\.0"):
        static(wait_s=-1.0)


@pytest.mark.parametrize("policy", [orca(), static()], ids=["orca", "static"])
def test_a_step_without_a_limit_leaves_the_memory_that_vllm_leaves(policy: paceline.Policy) -> None:
    """With no limit to size activations by, they are those of vLLM's step, 8,192 tokens on an H100."""
    instance = paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")
    trace = paceline.Trace.from_columns(arrival=[0.0], prompt_tokens=[9_000], output_tokens=[2])
    result = paceline.replay(trace, paceline.Cluster([instance]), policy)
    seats = policy.scheduler.max_num_seqs
    kept = instance.memory(max_num_batched_tokens=8192, max_num_seqs=seats)
    assert result.instances["blocks"].to_list() == [kept.blocks - 1]
    assert result.instances["prefill_tokens"].to_list() == [9_000]
    assert result.instances["steps"].to_list() == [2], "the prompt is computed in one step all the same"
