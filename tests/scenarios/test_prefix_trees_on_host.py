"""Prefixes in a radix tree that the host's memory has, too: writes, evictions and loads, worked by hand.

Ten blocks of 16 tokens. A step takes 10 ms and 1 ms a token, and a block is copied in 1 ms; the model has
four layers. A first turn of 96 tokens fills six blocks. Another request of 120 tokens takes eight, so that
the six are evicted, as a whole. The second turn has 100 tokens, 96 of which the first turn had.
"""

from __future__ import annotations

from typing import Any

import pytest

from paceline import Affine, Cluster, Instance, Trace, policies, replay
from paceline.errors import ConfigError, PolicyError
from paceline.policy import Host, Prefetch, PrefixCache, RadixTree, Store
from paceline.result import Result

BOTH = pytest.mark.parametrize("leap", [True, False])


def host(**fields: Any) -> Host:
    plain = {"chunks": 20, "bytes_per_s": 16e5, "overlap": "layers", "layers": 4}
    return Host(**plain | {"write": "through", "prompt_only": False, "poll": "end"} | fields)


def turns(
    cache: PrefixCache, *, leap: bool = True, arrival: tuple[float, float, float] = (0.0, 1.0, 2.0)
) -> Result:
    trace = Trace.from_columns(
        arrival=arrival, prompt_tokens=[96, 120, 100], output_tokens=[1, 1, 1], session=[0, 1, 0]
    )
    instance = Instance(
        cost=Affine(step_s=0.010, token_s=0.001), num_blocks=11, kv_bytes=100, max_model_len=160
    )
    policy = policies.sglang(prefix_caching=cache)
    return replay(trace, Cluster([instance]), policy=policy, leap=leap)


def ttft(result: Result) -> list[float]:
    return [round(float(one), 9) for one in result.requests["ttft"]]


@BOTH
def test_what_the_gpu_evicts_is_loaded_from_the_host(leap: bool) -> None:
    """Four tokens take 14 ms. Six blocks are loaded in 6 ms; the first layer waits for a quarter of that."""
    result = turns(PrefixCache(tree=RadixTree(), tiers=[host()]), leap=leap)
    assert ttft(result) == [0.106, 0.130, 0.0155]
    assert result.requests["cached_tokens"].to_list() == [0, 0, 0]
    assert result.requests["loaded_tokens"].to_list() == [0, 0, 96]
    used = result.stats.instances[0].tier
    assert used is not None
    # The last turn adds no whole block.
    assert (used["stored_blocks"], used["loaded_blocks"], used["peak_chunks"]) == (6 + 7, 6, 13)


@BOTH
def test_what_is_written_as_it_is_evicted_is_waited_for(leap: bool) -> None:
    """The second request waits 6 ms for six blocks; the third 7 ms for seven, before its load begins."""
    result = turns(PrefixCache(tree=RadixTree(), tiers=[host(write="back")]), leap=leap)
    assert ttft(result) == [0.106, 0.136, 0.0225]
    assert result.requests["loaded_tokens"].to_list() == [0, 0, 96]


@BOTH
def test_what_was_inserted_once_is_lost_where_two_insertions_are_wanted(leap: bool) -> None:
    result = turns(PrefixCache(tree=RadixTree(), tiers=[host(write="selective")]), leap=leap)
    assert ttft(result) == [0.106, 0.130, 0.110]
    used = result.stats.instances[0].tier
    assert used is not None
    assert used["stored_blocks"] == 0


@pytest.mark.parametrize(("least", "loaded"), [(96, 96), (97, 0)])
def test_fewer_tokens_than_the_least_are_computed(least: int, loaded: int) -> None:
    result = turns(PrefixCache(tree=RadixTree(least_load=least), tiers=[host()]))
    assert result.requests["loaded_tokens"].to_list() == [0, 0, loaded]


@BOTH
def test_what_is_being_written_is_not_evicted(leap: bool) -> None:
    """Six blocks are written in 600 ms from 106 ms on. Until then the other request finds four free.

    It has arrived at 200 ms, and is admitted at 706 ms.
    """
    slow = host(bytes_per_s=16e3)
    result = turns(PrefixCache(tree=RadixTree(), tiers=[slow]), leap=leap, arrival=(0.0, 0.2, 9.0))
    assert ttft(result)[1] == pytest.approx(0.506 + 0.130)
    assert result.requests["loaded_tokens"].to_list() == [0, 0, 96]


@BOTH
def test_the_host_evicts_whole_leaves(leap: bool) -> None:
    """A host of ten blocks has the first turn's six. Seven others find room, as the GPU has lost the six."""
    result = turns(PrefixCache(tree=RadixTree(), tiers=[host(chunks=10)]), leap=leap)
    assert result.requests["loaded_tokens"].to_list() == [0, 0, 0]
    used = result.stats.instances[0].tier
    assert used is not None
    # The last turn evicts the seven, and is written, as the first was.
    assert (used["evicted_blocks"], used["stored_blocks"], used["refused_stores"]) == (6 + 7, 6 + 7 + 6, 0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"chunk_blocks": 2}, "chunk_blocks of a Host must be 1 beside a tree, as in SGLang, was 2"),
        ({"eviction": "arc"}, "eviction of a Host must be 'lru' beside a tree"),
        ({"prompt_only": True}, "prompt_only of a Host must be False beside a tree"),
        ({"write": "completed"}, "write of a Host must be 'through', 'selective' or 'back' beside a tree"),
        ({"overlap": "none", "layers": None}, "overlap of a Host must be 'layers' beside a tree"),
        ({"poll": "begin"}, "poll of a Host must be 'end' beside a tree"),
    ],
)
def test_rules_of_single_blocks_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        PrefixCache(tree=RadixTree(), tiers=[host(**fields)])


def store(**fields: Any) -> Store:
    """A store that takes 2 ms for each of the blocks, each way."""
    prefetch = Prefetch(stop="wait_complete", least_tokens=16)
    return Store(**{"read_bytes_per_s": 8e5, "write_bytes_per_s": 8e5, "prefetch": prefetch} | fields)


def moved(stop: str = "wait_complete", *, leap: bool = True, shared: bool = True, **fields: Any) -> Result:
    """A first turn of 96 tokens, and on another instance a second one of 100, whose host has nothing."""
    trace = Trace.from_columns(
        arrival=[0.0, 1.0], prompt_tokens=[96, 100], output_tokens=[1, 1], session=[0, 0]
    )
    cost = Affine(step_s=0.010, token_s=0.001)
    instance = Instance(cost=cost, num_blocks=11, kv_bytes=100, max_model_len=160)
    prefetch = Prefetch(**{"stop": stop, "least_tokens": 16} | fields)
    tiers = [host(), store(prefetch=prefetch, shared=shared)]
    cache = PrefixCache(tree=RadixTree(), tiers=tiers)
    policy = policies.sglang(prefix_caching=cache, routing="round_robin")
    return replay(trace, Cluster([instance, instance]), policy=policy, leap=leap)


@BOTH
def test_what_a_store_has_is_read_as_a_request_arrives(leap: bool) -> None:
    """The second turn waits 12 ms for six blocks, which are loaded in 6 ms beside the 14 ms of four tokens.

    The first of four layers waits for a quarter of the load.
    """
    result = moved(leap=leap)
    assert ttft(result) == [0.106, 0.012 + 0.0155]
    assert result.requests["loaded_tokens"].to_list() == [0, 96]
    assert result.requests["store_tokens"].to_list() == [0, 96]
    written, read = (instance.store for instance in result.stats.instances)
    assert written is not None
    assert read is not None
    assert (written["written_blocks"], written["read_blocks"]) == (6, 0)
    # The store has all that the second instance copies to its host.
    assert (read["written_blocks"], read["read_blocks"], read["refused_reads"]) == (0, 6, 0)


@BOTH
def test_a_request_that_has_waited_long_enough_computes_its_prompt(leap: bool) -> None:
    """Six blocks are one batch, which the tree takes as a whole: after 5 ms the request has nothing of it."""
    result = moved("timeout", leap=leap, base_s=0.005, per_ki_token_s=0.0)
    assert ttft(result)[1] == pytest.approx(0.005 + 0.110)
    assert result.requests["store_tokens"].to_list() == [0, 0]
    read = result.stats.instances[1].store
    assert read is not None
    assert read["read_blocks"] == 6


@BOTH
def test_a_request_does_not_wait_under_best_effort(leap: bool) -> None:
    result = moved("best_effort", leap=leap)
    assert ttft(result)[1] == 0.110
    assert result.requests["loaded_tokens"].to_list() == [0, 0]


@pytest.mark.parametrize(("least", "read"), [(96, 96), (97, 0)])
def test_fewer_tokens_than_the_least_are_not_read(least: int, read: int) -> None:
    assert moved(least_tokens=least).requests["store_tokens"].to_list() == [0, read]


def test_a_store_of_its_own_has_nothing_of_another_instance() -> None:
    assert moved(shared=False).requests["store_tokens"].to_list() == [0, 0]


@BOTH
def test_a_read_takes_the_room_that_the_host_has(leap: bool) -> None:
    """Of eight blocks of the host, the second request has seven, which the GPU has, too: one is left."""
    result = turns(PrefixCache(tree=RadixTree(), tiers=[host(chunks=8), store()]), leap=leap)
    assert result.requests["store_tokens"].to_list() == [0, 0, 16]
    below = result.stats.instances[0].store
    assert below is not None
    assert (below["written_blocks"], below["read_blocks"], below["refused_reads"]) == (6 + 7, 1, 5)


def test_stores_that_are_not_modelled_are_refused() -> None:
    with pytest.raises(PolicyError, match="prefetch of a Store must be a Prefetch beside a tree"):
        PrefixCache(tree=RadixTree(), tiers=[host(), store(prefetch=None)])
    with pytest.raises(PolicyError, match="write of a Host must be 'through' or 'selective' beside"):
        PrefixCache(tree=RadixTree(), tiers=[host(write="back"), store()])
    cache = PrefixCache(tree=RadixTree(), tiers=[host(), store()])
    ahead = policies.sglang(prefix_caching=cache, overlap_schedule=True)
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[9], output_tokens=[1], session=[0])
    instance = Instance(cost=Affine(step_s=0.010), num_blocks=11, kv_bytes=100, max_model_len=160)
    with pytest.raises(ConfigError, match="below: must be null where steps are decided ahead"):
        replay(trace, Cluster([instance]), policy=ahead)


def test_a_negative_least_load_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"least_load of a RadixTree must be 0 to .*, was -1"):
        RadixTree(least_load=-1)
