"""Tokens that a preempted request loses where steps are decided ahead, worked by hand."""

from __future__ import annotations

import dataclasses

import pytest

import paceline
from paceline import Affine, Cluster, Instance, Policy, PolicyError, Result, Scheduler, Trace, policies
from paceline.policy import Admit, Decodes, Host, OutputReserve, PrefixCache, RadixTree

RULES = Scheduler(
    max_num_batched_tokens=100,
    stages=(Admit(chunked=False), Decodes(charged=False, over_prefills=False)),
    exclusive_prefill=True,
    victim="fewest_generated",
    requeue_last=True,
    output_reserve=OutputReserve(share=0.0, least=0.0, clip=1),
    schedule_ahead=True,
)


def replayed(*, drops: bool) -> Result:
    """Replay two prompts of three tokens with outputs of six on twelve blocks; a step takes a second."""
    trace = Trace.from_columns(arrival=[0.0, 0.0], prompt_tokens=[3, 3], output_tokens=[6, 6])
    policy = Policy(name="drops", scheduler=dataclasses.replace(RULES, drop_unseen=drops))
    instance = Instance(block_tokens=1, num_blocks=13, cost=Affine(step_s=1.0))
    return paceline.replay(trace, Cluster([instance]), policy, record=(0.0, 100.0))


def steps(result: Result) -> list[list[tuple[int, int]]]:
    """Return the rows and tokens of each step."""
    rows = result.steps.select("requests", "tokens").iter_rows()
    return [list(zip(rows_of, tokens, strict=True)) for rows_of, tokens in rows]


@pytest.mark.parametrize(("drops", "again", "finish"), [(False, 7, 8.0), (True, 6, 9.0)])
def test_a_preempted_request_computes_the_token_again_that_it_loses(
    drops: bool, again: int, finish: float
) -> None:
    """The fourth token of both is yielded at 4, when no block is free: the second request is preempted.

    It has three tokens where it loses the fourth, and four where it does not. Both compute prompt and output
    again at 6, once the first request has ended.
    """
    result = replayed(drops=drops)
    both, first, second = [(0, 1), (1, 1)], [(0, 1)], [(1, 1)]
    rest = round(finish) - 7
    assert steps(result) == [[(0, 3), (1, 3)], both, both, both, first, first, [(1, again)], *[second] * rest]
    requests = result.requests
    assert requests["preemptions"].to_list() == [0, 1]
    assert requests["finish"].to_list() == [6.0, finish]
    # The longest gap ends with the token after the preemption.
    assert requests["max_itl"].to_list() == [1.0, 4.0 if drops else 3.0]
    assert result.itl.count == 10


def test_nothing_is_dropped_beside_a_cache_of_single_blocks() -> None:
    """Beside SGLang's hierarchical cache, whose nodes are a tree's, tokens are dropped, too."""
    ahead = policies.sglang(prefix_caching=True, overlap_schedule=True).scheduler
    assert ahead.drop_unseen
    assert isinstance(ahead.prefix_cache.tree, RadixTree)
    tiers = policies.sglang(prefix_caching=True, hierarchical_cache=True, overlap_schedule=True)
    assert tiers.scheduler.drop_unseen
    single = policies.sglang(
        prefix_caching=PrefixCache(tiers=[Host(gib=1.0, write="through", overlap="layers", poll="end")]),
        overlap_schedule=True,
    )
    assert not single.scheduler.drop_unseen
    assert not policies.sglang().scheduler.drop_unseen


def test_tokens_are_not_dropped_where_requests_migrate_without_a_handover() -> None:
    one = policies.sglang(overlap_schedule=True).scheduler
    handed_over = policies.disaggregated(prefill=1, decode=1, scheduler=one)
    assert handed_over.schedulers[0].drop_unseen
    with pytest.raises(PolicyError, match="drop_unseen of a scheduler must be False where requests migrate"):
        dataclasses.replace(handed_over, handover=None)
