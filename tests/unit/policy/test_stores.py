"""Stores below the host's memory: their sizes, their links, and what they are refused with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline import Cluster, Instance, Policy, Trace, policies, replay
from paceline.cost import Affine
from paceline.errors import ConfigError, PolicyError
from paceline.policy import Host, Prefetch, PrefixCache, Store

HOST = Host(chunks=100, bytes_per_s=16e5)
LINK = {"read_bytes_per_s": 16e5, "write_bytes_per_s": 8e5}


def small(**fields: Any) -> Instance:
    """Return an instance whose blocks have 16 tokens of 100 bytes."""
    cost = Affine(step_s=0.010, token_s=0.001)
    return Instance(cost=cost, num_blocks=40, kv_bytes=100, max_model_len=500, **fields)


def test_a_store_is_written_as_the_engine_reads_it() -> None:
    lease = Store(**LINK, gib=1, eviction="lease", total_read_bytes_per_s=32e5, latency_s=0.001)
    store, link = lease.on(small(), 2)
    # 2**30 bytes are 335,544 chunks of 3,200; a block takes 1 ms to read and 2 ms to write.
    assert store["chunks"] == 335_544
    assert (store["read"], store["write"]) == (5 * 10**8, 0)
    assert link == {"read": {"fixed": 10**9, "block": 10**9}, "write": {"fixed": 10**9, "block": 2 * 10**9}}
    # Mooncake's defaults: 5 s, 95% and 5%.
    assert store["eviction"] == {"kind": "lease", "ttl": 5 * 10**12, "watermark": 950_000, "share": 50_000}


def test_all_gpus_of_an_instance_share_its_link() -> None:
    times = []
    for gpus in (1, 2):
        instance = Instance(model="llama-3.1-8b", gpu="h100-sxm", tensor_parallel=gpus)
        times.append(Store(**LINK).on(instance, 1)[1]["read"]["block"])
    assert times[0] == times[1]


def test_a_policy_with_a_store_is_written_to_toml_and_read() -> None:
    store = Store(**LINK, chunks=9, shared=True, eviction="lease", lease_s=1.5, prefetch=Prefetch(base_s=0.5))
    cache = PrefixCache(tiers=[HOST, store])
    policy = policies.vllm(prefix_caching=cache)
    assert Policy.from_toml(policy.to_toml()) == policy


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gib": 1, "chunks": 1}, "one of gib and chunks of a Store may be given, were 1 and 1"),
        ({"gib": 0}, "gib of a Store must be above 0 GiB, was 0"),
        ({"chunks": 0}, "chunks of a Store must be .*, was 0"),
        ({"read_bytes_per_s": 0}, "read_bytes_per_s of a Store must be above 0 bytes, was 0"),
        ({"total_write_bytes_per_s": -1}, "total_write_bytes_per_s of a Store must be above 0"),
        ({"latency_s": -1}, "latency_s of a Store must be 0 or more seconds, was -1"),
        ({"watermark": 0}, "watermark of a Store must be above 0 and at most 1, was 0"),
        ({"evict_share": 1.5}, "evict_share of a Store must be above 0 and at most 1, was 1.5"),
        ({"prefetch": "timeout"}, "prefetch of a Store must be"),
        ({"eviction": "fifo"}, "eviction of a Store must be one of none, lru, lease, was 'fifo'"),
    ],
)
def test_numbers_out_of_range_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        Store(**{**LINK, **fields})


def test_prefetching_is_written_as_the_engine_reads_it() -> None:
    # SGLang's defaults: a second, and a quarter for each 1,024 tokens, from 256 tokens on.
    stop = {"kind": "timeout", "base": 10**12, "per_ki_token": 25 * 10**10}
    link = Store(**LINK, prefetch=Prefetch()).on(small(), 1)[1]
    assert link["prefetch"] == {"least": 256, "stop": stop}
    assert Prefetch(stop="best_effort", least_tokens=0).to_wire() == {
        "least": 0,
        "stop": {"kind": "best_effort"},
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"least_tokens": -1}, "least_tokens of Prefetch must be .*, was -1"),
        ({"base_s": -1.0}, "base_s of Prefetch must be 0 or more seconds, was -1"),
        ({"per_ki_token_s": 1e7}, "per_ki_token_s of Prefetch must be 0 or more seconds, was 1"),
    ],
)
def test_numbers_of_a_prefetch_out_of_range_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        Prefetch(**fields)


def test_prefetching_is_refused_where_arrivals_are_received_at_intervals() -> None:
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[20], output_tokens=[2])
    cache = PrefixCache(tiers=[HOST, Store(**LINK, prefetch=Prefetch())])
    policy = policies.vllm(prefix_caching=cache)
    policy = replace(policy, scheduler=replace(policy.scheduler_of(0), receive_interval=2))
    with pytest.raises(ConfigError, match="must be null where arrivals are not queued at once"):
        replay(trace, Cluster([small()]), policy=policy)


def test_steps_decided_ahead_are_refused() -> None:
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[20], output_tokens=[2])
    cache = PrefixCache(tiers=[HOST, Store(**LINK)])
    policy = policies.vllm(prefix_caching=cache, async_scheduling=True)
    with pytest.raises(ConfigError, match="where steps are decided ahead"):
        replay(trace, Cluster([small()]), policy=policy)


def test_pipeline_stages_are_refused() -> None:
    instance = Instance(model="llama-3.1-8b", gpu="h100-sxm", pipeline_parallel=2)
    with pytest.raises(ConfigError, match="no Store unless pipeline_parallel of an Instance is 1, was 2"):
        Store(**LINK).on(instance, 1)


def test_a_store_is_shared_by_instances_with_equal_chunks_only() -> None:
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[20], output_tokens=[2])
    instances = [small(), small(block_tokens=32)]
    for shared in (False, True):
        policy = policies.vllm(prefix_caching=PrefixCache(tiers=[HOST, Store(**LINK, shared=shared)]))
        if not shared:
            assert len(replay(trace, Cluster(instances), policy=policy).stats.stores) == 2
            continue
        with pytest.raises(ConfigError, match="must have a shared Store only for instances of one model"):
            replay(trace, Cluster(instances), policy=policy)
