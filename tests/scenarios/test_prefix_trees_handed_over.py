"""Radix trees beside hand-overs, worked by hand: a step and the KV of a token take a second each."""

from __future__ import annotations

import pytest

import paceline
from paceline import Affine, Cluster, Links, Policy, Result, Trace, policies
from paceline.errors import PolicyError
from paceline.policy import Host, PrefixCache, RadixTree, Scheduler

BOTH = pytest.mark.parametrize("leap", [True, False])
AHEAD = pytest.mark.parametrize("ahead", [True, False])


def prompt(first: int, tokens: int) -> list[int]:
    return list(range(first, first + tokens))


def tree(*, ahead: bool = False) -> Scheduler:
    return policies.sglang(prefix_caching=True, overlap_schedule=ahead).scheduler


def plain(*, ahead: bool = False) -> Scheduler:
    return policies.sglang(overlap_schedule=ahead).scheduler


def replayed(
    prompts: list[tuple[float, list[int]]],
    policy: Policy,
    *,
    leap: bool,
    blocks: tuple[int, int] = (1000, 1000),
    outputs: int = 3,
) -> Result:
    """Replay prompts, each the ids of its tokens, on an instance for prefills and one for decodes."""
    trace = Trace.from_columns(
        arrival=[at for at, _ in prompts],
        prompt_tokens=[len(ids) for _, ids in prompts],
        output_tokens=[outputs] * len(prompts),
        prefix=[ids for _, ids in prompts],
        prefix_block_tokens=1,
    )
    each = [
        paceline.Instance(
            model="llama-3.1-8b",
            block_tokens=1,
            num_blocks=many + 1,
            max_model_len=12,
            cost=Affine(step_s=1.0),
        )
        for many in blocks
    ]
    links = Links(gbps=each[0].kv_bytes_per_token * 8 / 1e9)
    return paceline.replay(trace, Cluster(each, links=links), policy, leap=leap)


@AHEAD
@BOTH
def test_a_prompt_stays_in_the_tree_of_its_prefill_instance(leap: bool, ahead: bool) -> None:
    """It is found once it has been sent, and while it is sent. The token of its output is not there."""
    policy = policies.disaggregated(scheduler=plain(ahead=ahead), prefill_scheduler=tree(ahead=ahead))
    several = [(0.0, prompt(100, 8)), (4.0, prompt(100, 8)), (50.0, [*prompt(100, 8), 900])]
    requests = replayed(several, policy, leap=leap).requests
    assert requests["cached_tokens"].to_list() == [0, 7, 8]
    assert set(requests["last_instance"]) == {1}
    assert set(requests["status"]) == {"finished"}


@BOTH
def test_a_prompt_is_locked_until_it_has_been_sent(leap: bool) -> None:
    """Of 14 blocks the first prompt has 8 until it has been sent, from second 1 to second 9.

    The second needs 8 blocks, a token more for its output, and one that an admission leaves: it is admitted
    as the first has been sent, whose blocks it evicts.
    """
    policy = policies.disaggregated(scheduler=plain(), prefill_scheduler=tree())
    several = [(0.0, prompt(100, 8)), (2.0, prompt(200, 8)), (60.0, prompt(100, 8))]
    requests = replayed(several, policy, leap=leap, blocks=(14, 1000), outputs=2).requests
    assert requests["scheduled"].to_list()[:2] == [0.0, 9.0]
    assert requests["cached_tokens"].to_list() == [0, 0, 0]


@BOTH
def test_a_decode_instance_with_a_tree_receives_what_it_lacks(leap: bool) -> None:
    """The prompt comes again: the prefill instance computes its last token, and nothing is sent."""
    policy = policies.disaggregated(scheduler=tree())
    several = [(0.0, prompt(100, 8)), (40.0, prompt(100, 8))]
    result = replayed(several, policy, leap=leap)
    assert result.requests["cached_tokens"].to_list() == [0, 7]
    assert result.requests["transfer"].to_list() == [8.0, 0.0]


@BOTH
def test_an_accepted_request_evicts_what_the_decode_instance_caches(leap: bool) -> None:
    """The decode instance has 13 blocks, of which the first request leaves 10. The second needs 9."""
    policy = policies.disaggregated(scheduler=tree())
    several = [(0.0, prompt(100, 8)), (40.0, prompt(200, 8)), (80.0, prompt(100, 8))]
    result = replayed(several, policy, leap=leap, blocks=(1000, 13))
    assert result.requests["transfer"].to_list() == [8.0, 8.0, 8.0]
    assert result.requests["cached_tokens"].to_list() == [0, 0, 7]


def test_a_tree_with_the_host_below_is_refused() -> None:
    host = Host(ratio=2.0, write="through", overlap="layers", prompt_only=False, poll="end")
    cache = PrefixCache(tree=RadixTree(), tiers=[host])
    one = policies.sglang(prefix_caching=cache).scheduler
    with pytest.raises(PolicyError, match="tiers of a prefix_cache with a tree must be empty where requests"):
        policies.disaggregated(scheduler=one)
