"""Requests that share a prefix and are swapped out: blocks and copies, counted by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import paceline
from paceline import Affine, Result, Scheduler, Trace, policies
from paceline.policy import Policy, PrefixCache
from paceline.policy.stages import Admit, Running, Swap, SwapIn

BLOCK = 4


def replay(*, cpu_blocks: int, leap: bool = True) -> Result:
    """Replay three requests on 8 blocks of 4 tokens, and one that vLLM keeps for padding.

    The first has one block and generates until it has 5. The other two have three blocks each, of which they
    share the first two.

    ======  ==============================  ==========  ===========
    tokens  blocks held by the three        free blocks  preempted
    ======  ==============================  ==========  ===========
    1       2, 4, 4 of which 2 are shared   0
    5       3, 5, and none                  0            the third, with 4
    9       4, and none                     4            the second, with 5
    ======  ==============================  ==========  ===========
    """
    trace = Trace.from_columns(
        arrival=[0.0, 0.0, 0.0],
        prompt_tokens=[4, 12, 12],
        output_tokens=[16, 12, 12],
        prefix=[[9], [1, 2, 3], [1, 2, 4]],
        prefix_block_tokens=BLOCK,
    )
    scheduler = Scheduler(
        stages=(Running(), SwapIn(), Admit()),
        allocation="chunk",
        preemption=Swap(cpu_blocks=cpu_blocks),
        prefix_cache=PrefixCache(),
    )
    instance = paceline.Instance(block_tokens=BLOCK, num_blocks=9, cost=Affine(step_s=1.0))
    return paceline.replay(
        trace, paceline.Cluster([instance]), Policy(name="swaps", scheduler=scheduler), leap=leap
    )


@pytest.mark.parametrize("leap", [True, False])
def test_a_swap_copies_all_blocks_also_those_that_are_cached(leap: bool) -> None:
    """The copies have 4 and 5 blocks, two of each equal."""
    result = replay(cpu_blocks=9, leap=leap)
    usage = result.stats.instances[0]
    assert usage.preemptions == 2
    assert (usage.swapped_out_blocks, usage.swapped_in_blocks, usage.swap_overflows) == (9, 9, 0)
    assert result.requests["status"].to_list() == ["finished"] * 3


def test_a_copy_needs_room_for_all_its_blocks_also_those_that_it_will_share() -> None:
    usage = replay(cpu_blocks=8).stats.instances[0]
    assert (usage.swapped_out_blocks, usage.swap_overflows) == (4, 1)


def test_a_swap_is_no_lookup_of_the_prefix_cache() -> None:
    """Three prompts are looked up, and the third finds the two blocks that it shares."""
    usage = replay(cpu_blocks=9).stats.instances[0]
    assert (usage.prefix_queries, usage.prefix_hits) == (4 + 12 + 12, 2 * BLOCK)


@pytest.mark.parametrize(
    "make", [policies.pascal, policies.fcfs, policies.round_robin_quanta, policies.plas, policies.vllm_v0]
)
def test_policies_that_swap_may_cache_prefixes(make: Callable[..., Policy]) -> None:
    assert make().scheduler.prefix_cache is None
    assert make(prefix_caching=True).scheduler.prefix_cache == PrefixCache()
    own = PrefixCache(unknown_first=False)
    assert make(prefix_caching=own).scheduler.prefix_cache == own
