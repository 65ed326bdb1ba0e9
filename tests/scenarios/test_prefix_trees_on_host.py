"""Prefixes in a radix tree that the host's memory has, too: writes, evictions and loads, worked by hand.

Ten blocks of 16 tokens. A step takes 10 ms and 1 ms a token, and a block is copied in 1 ms; the model has
four layers. A first turn of 96 tokens fills six blocks. Another request of 120 tokens takes eight, so that
the six are evicted, as a whole. The second turn has 100 tokens, 96 of which the first turn had.
"""

from __future__ import annotations

from typing import Any

import pytest

from paceline import Affine, Cluster, Instance, Trace, policies, replay
from paceline.errors import PolicyError
from paceline.policy import Host, PrefixCache, RadixTree, Store
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


def test_a_store_below_is_refused() -> None:
    store = Store(read_bytes_per_s=1e9, write_bytes_per_s=1e9)
    with pytest.raises(PolicyError, match="tiers of a PrefixCache must be a Host alone beside a tree"):
        PrefixCache(tree=RadixTree(), tiers=[host(), store])
    with pytest.raises(PolicyError, match=r"least_load of a RadixTree must be 0 to .*, was -1"):
        RadixTree(least_load=-1)
