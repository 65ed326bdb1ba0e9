"""Decisions in which vLLM 0.11 and 0.33 differ, each worked out by hand."""

from __future__ import annotations

import dataclasses
from typing import Literal

import pytest

from paceline.policies import vllm
from paceline.policy.prefix_cache import PrefixCache
from unit.policies.scenario import run, times

BOTH = pytest.mark.parametrize("leap", [True, False])
Version = Literal["0.33", "0.11"]


@BOTH
@pytest.mark.parametrize(
    ("version", "scheduled", "preemptions"), [("0.33", [0.0, 4.0], [0, 0]), ("0.11", [0.0, 0.0], [0, 2])]
)
def test_an_admission_needs_room_for_its_first_chunk_or_for_all(
    version: Version, scheduled: list[float], preemptions: list[int], leap: bool
) -> None:
    """8 tokens a step and 4 blocks of 4: A is 4 in and 4 out, B 14 in and 1 out.

    0.33 admits B when A finishes at 4 s. 0.11 admits it with the 4 tokens that step 1
    has left. B is preempted at step 2, where it needs 2 blocks and one is free, is
    admitted with 7 tokens at step 3, and preempted again at step 4. In both versions
    it has 14 tokens to compute from 4 s on, in two steps.
    """
    policy = vllm(version=version, max_num_batched_tokens=8, max_num_seqs=4)
    result = run(policy, [(0, 4, 4), (0, 14, 1)], blocks=4, leap=leap)
    assert times(result, "scheduled") == scheduled
    assert result.requests["preemptions"].to_list() == preemptions
    assert times(result, "finish") == [4.0, 6.0]


@BOTH
@pytest.mark.parametrize(("refund", "finish"), [(True, [8.0, 5.0, 5.0]), (False, [8.0, 5.0, 6.0])])
def test_the_tokens_of_a_victim_are_refunded_or_not(refund: bool, finish: list[float], leap: bool) -> None:
    """3 tokens a step, 4 blocks of 4; V (3 in, 5 out) has the worst priority, then A (3, 3), then C (4, 1).

    ====  ==========  ===============  ====================
    step  V           A                C
    ====  ==========  ===============  ====================
    1     prompt
    2     4th token   2 of its prompt
    3     5th         1                1 of its prompt
    4     6th         4th              1
    5     7th         5th              2 or 1 of 2
    ====  ==========  ===============  ====================

    V then holds two blocks, A and C one each. A needs a second at step 5, after V was
    scheduled for a token of the step, and V is preempted: C gets V's token or not. V
    has 7 tokens to compute, from step 6 on and, if C needs one of them, beside it.
    """
    policy = vllm(policy="priority", max_num_batched_tokens=3, max_num_seqs=4)
    scheduler = dataclasses.replace(policy.scheduler, refund=refund)
    result = run(
        dataclasses.replace(policy, scheduler=scheduler),
        [(0, 3, 5), (0.5, 3, 3), (1.5, 4, 1)],
        blocks=4,
        priority=[9, 0, 0],
        leap=leap,
    )
    assert result.requests["preemptions"].to_list() == [1, 0, 0]
    assert times(result, "finish") == finish


def test_the_generations_differ_in_these_settings() -> None:
    newest, older = (vllm(version=version, prefix_caching=True) for version in ("0.33", "0.11"))
    assert (newest.name, older.name) == ("vllm", "vllm-0.11")
    assert newest.scheduler.prefix_cache == PrefixCache(unknown_first=True)
    assert older.scheduler.prefix_cache == PrefixCache(unknown_first=False)
    assert (newest.scheduler.refund, older.scheduler.refund) == (True, False)
    assert newest.scheduler.allocation == "chunk_if_all_fits"
    assert older.scheduler.allocation == "chunk"
    assert vllm(reserve_full_prompt=False).scheduler.allocation == "chunk"
