"""Orders of eviction: what they may read, how they are written, and what they change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline import Affine, Cluster, Instance, Policy, PolicyError, Trace, policies, replay
from paceline.policy import Eviction, Expr, PrefixCache, Scheduler, block, inst, oracle, req, where


def evicting(evict: Eviction | Expr | None) -> Policy:
    """Return vLLM with a prefix cache that evicts in an order."""
    policy = policies.vllm(prefix_caching=True)
    assert isinstance(policy.scheduler, Scheduler)
    return replace(policy, scheduler=replace(policy.scheduler, prefix_cache=PrefixCache(evict=evict)))


def hits(evict: Eviction | Expr | None) -> list[int]:
    """Return the cached tokens of the prompts A, B, A, C, B, A in a cache of three blocks.

    A prompt has a full block and a token. A request holds two blocks and leaves one with known content: with
    two prompts cached, a third evicts one.
    """
    trace = Trace.from_columns(
        arrival=[0, 10, 20, 30, 40, 50],
        prompt_tokens=[17] * 6,
        output_tokens=[1] * 6,
        prefix=[[1], [2], [1], [3], [2], [1]],
        prefix_block_tokens=16,
        priority=[0, 5, 0, 0, 0, 0],
    )
    cluster = Cluster([Instance(cost=Affine(step_s=0.01), num_blocks=4)])
    return replay(trace, cluster, evicting(evict)).requests["cached_tokens"].to_list()


def test_an_order_decides_which_block_is_evicted() -> None:
    # C takes the free block and evicts B, used before A; then B evicts A.
    least_recent = [0, 0, 16, 0, 0, 0]
    assert hits(None) == least_recent
    assert hits(block.last_use) == least_recent
    # The latest use first: C evicts A, and B is still there.
    assert hits(-block.last_use) == [0, 0, 16, 0, 16, 0]
    # Fewest uses first: A has been held twice. C evicts B, and B evicts C.
    assert hits(block.uses) == [0, 0, 16, 0, 0, 16]
    # By the priority of the request that freed it: C evicts A, and B is kept.
    assert hits(req.priority) == [0, 0, 16, 0, 16, 0]


def test_groups_change_places_with_time() -> None:
    # B's group is idle for 10 s when C comes, and A's for none; the handicap is added to A's.
    def first(handicap: int) -> Eviction:
        kept = where(req.priority == 5, 0, handicap)
        return Eviction(order=block.last_use, groups=req.priority, first=-(block.idle + kept))

    assert hits(first(5)) == [0, 0, 16, 0, 0, 0]
    assert hits(first(25)) == [0, 0, 16, 0, 16, 0]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"order": block.idle}, "block.idle"),
        ({"order": req.age}, "req.age"),
        ({"order": inst.free_blocks}, "inst.free_blocks"),
        ({"order": 0, "groups": 1}, "both or neither"),
        ({"order": 0, "groups": block.idle, "first": 0}, "block.idle"),
        ({"order": 0, "groups": 0, "first": oracle.remaining_tokens}, "oracle.remaining_tokens"),
    ],
)
def test_what_is_not_known_of_a_block_is_refused(parts: dict[str, Expr], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        Eviction(**parts)


def test_an_order_needs_a_queue_of_unknown_blocks() -> None:
    with pytest.raises(PolicyError, match="unknown_first"):
        PrefixCache(unknown_first=False, evict=block.uses)


def test_a_policy_with_an_order_comes_back_from_toml() -> None:
    policy = evicting(Eviction(order=block.last_use, groups=req.column("turn"), first=-block.idle))
    again = Policy.from_toml(policy.to_toml())
    assert again == policy
    assert policy.numbers == ("turn",)
    assert evicting(oracle.output_tokens).uses_oracle
