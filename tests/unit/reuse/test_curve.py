"""Curves of hit rates: their ends, and replays of requests that follow one another."""

from __future__ import annotations

from collections import OrderedDict
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import Affine, Cluster, ConfigError, Instance, Trace, TraceError, policies
from paceline.policy import Host, PrefixCache
from paceline.reuse import hit_curve, replayed_hits, tier_hits
from paceline.synthesis import ideal_hit_rate


@st.composite
def conversations(draw: st.DrawFn) -> Trace:
    """Draw turns of a few sessions, one after another; some are shorter than the turn before."""
    rows = draw(
        st.lists(
            st.tuples(st.sampled_from(["a", "b", None]), st.integers(1, 60), st.integers(1, 30)),
            min_size=1,
            max_size=12,
        )
    )
    session, prompt, output = zip(*rows, strict=True)
    return Trace.from_columns(
        arrival=list(range(len(rows))), prompt_tokens=prompt, output_tokens=output, session=session
    )


@st.composite
def prefixes(draw: st.DrawFn) -> Trace:
    """Draw prompts of chained ids, each of which names all ids up to it."""
    prompts = draw(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=12))
    rest = draw(st.lists(st.integers(0, 3), min_size=len(prompts), max_size=len(prompts)))
    chained = [[int("9" + "".join(map(str, ids[: end + 1]))) for end in range(len(ids))] for ids in prompts]
    return Trace.from_columns(
        arrival=list(range(len(prompts))),
        prompt_tokens=[4 * len(ids) - less for ids, less in zip(prompts, rest, strict=True)],
        output_tokens=[1] * len(prompts),
        prefix=chained,
        prefix_block_tokens=4,
    )


@given(trace=conversations() | prefixes(), answers=st.booleans())
def test_the_last_point_is_the_ideal_hit_rate(trace: Trace, answers: bool) -> None:
    curve = hit_curve(trace, answers=answers)
    assert curve["token_hit_rate"][-1] == ideal_hit_rate(trace, answers=answers)
    assert curve["token_hit_rate"].is_sorted()


@given(trace=conversations(), capacity=st.integers(8, 30))
def test_a_replay_of_one_request_at_a_time_finds_what_the_curve_says(trace: Trace, capacity: int) -> None:
    # A request holds one block that is not full beside those that the curve counts; it is free in between.
    # Prompts that end with a full block hold that block twice if it was cached, which the curve does not
    # count.
    frame = trace.frame
    apart = Trace.from_columns(
        arrival=[1000 * row for row in range(len(trace))],
        prompt_tokens=[16 * (tokens // 4) + 1 + tokens % 4 for tokens in frame["prompt_tokens"]],
        output_tokens=frame["output_tokens"],
        session=frame["session"],
    )
    cluster = Cluster([Instance(cost=Affine(step_s=0.01), num_blocks=99)])
    replayed = replayed_hits(apart, cluster, policies.vllm(prefix_caching=True), capacities=[capacity])
    if replayed["rejected"].item():
        return  # a request that does not fit uses no blocks in the engine
    low, high = hit_curve(apart, capacities=[capacity - 1, capacity], full_blocks=True)["token_hit_rate"]
    assert low <= replayed["token_hit_rate"].item() <= high


@given(trace=prefixes(), tiers=st.lists(st.integers(1, 12), min_size=1, max_size=3, unique=True).map(sorted))
def test_each_tier_finds_what_lru_caches_of_their_sizes_find(trace: Trace, tiers: list[int]) -> None:
    caches: list[OrderedDict[int, None]] = [OrderedDict() for _ in tiers]
    found, asked = [0] * len(tiers), 0
    for ids in trace.frame["prefix"].to_list():
        asked += len(ids)
        where = [next((at for at, cache in enumerate(caches) if block in cache), None) for block in ids]
        for at in takewhile(lambda at: at is not None, where):
            assert at is not None
            found[at] += 1
        for block in reversed(ids):
            for cache, most in zip(caches, tiers, strict=True):
                cache[block] = None
                cache.move_to_end(block)
                if len(cache) > most:
                    cache.popitem(last=False)
    rates = tier_hits(trace, tiers=tiers, answers=False)["block_hit_rate"]
    assert rates.to_list() == pytest.approx([hits / asked for hits in found])


@pytest.mark.parametrize("tiers", [[], [4, 4], [5, 4]])
def test_tiers_that_do_not_grow_are_refused(tiers: list[int]) -> None:
    trace = Trace.from_columns(arrival=[0], prompt_tokens=[4], output_tokens=[1], session=["a"])
    with pytest.raises(ConfigError, match="each more than the one above"):
        tier_hits(trace, tiers=tiers)


def test_a_replay_says_what_the_host_has() -> None:
    # Ten blocks of a GPU hold one of two sessions at a time. The second turn of "a" finds its first nine
    # blocks, which the turn of "b" evicted, in the host's memory.
    trace = Trace.from_columns(
        arrival=[0, 1000, 2000],
        prompt_tokens=[145, 145, 146],
        output_tokens=[1, 1, 1],
        session=["a", "b", "a"],
    )
    cluster = Cluster([Instance(cost=Affine(step_s=0.01), num_blocks=99, kv_bytes=1024)])
    policy = policies.vllm(prefix_caching=PrefixCache(tiers=[Host(chunks=100, bytes_per_s=1e9)]))
    row = replayed_hits(trace, cluster, policy, capacities=[10]).row(0, named=True)
    assert (row["token_hit_rate"], row["store_hit_rate"]) == (0.0, None)
    assert row["host_hit_rate"] == pytest.approx(144 / 436)


def test_a_model_says_how_large_a_block_is() -> None:
    trace = Trace.from_columns(
        arrival=[0, 1], prompt_tokens=[64, 128], output_tokens=[1, 1], session=["a", "a"]
    )
    curve = hit_curve(trace, capacities=[512], model="llama-3.1-8b")
    # 32 layers of 8 heads of 128 numbers of 2 bytes, keys and values: 128 KiB a token, 2 MiB a block.
    assert curve["capacity_gib"].item() == 1.0


def test_a_trace_that_says_nothing_of_prefixes_is_refused() -> None:
    with pytest.raises(TraceError, match="prefix or session"):
        hit_curve(Trace.from_columns(arrival=[0], prompt_tokens=[1], output_tokens=[1]))


@pytest.mark.parametrize("settings", [{"capacities": [0]}, {"block_tokens": 0}, {"block_tokens": 3}])
def test_values_out_of_range_are_refused(settings: dict[str, object]) -> None:
    trace = Trace.from_columns(
        arrival=[0], prompt_tokens=[4], output_tokens=[1], prefix=[[1]], prefix_block_tokens=4
    )
    with pytest.raises(ConfigError, match=r"capacity|block_tokens"):
        hit_curve(trace, **settings)  # type: ignore[arg-type]
