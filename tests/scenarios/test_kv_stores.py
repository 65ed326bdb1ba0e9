"""Timelines of a store below the host's memory, worked by hand.

The instances have blocks of 16 tokens, of which 8 fit in their memory. A step takes 10 ms, and 1 ms for each
token that it computes. Between the GPU and the host, a block takes 2 ms; between the host and the store, 1 ms
to write and 3 ms to read.
"""

from __future__ import annotations

from typing import Any

import pytest

from paceline import Cluster, Instance, Result, Trace, policies, replay
from paceline.cost import Affine
from paceline.policy import Host, Prefetch, PrefixCache, Store

BLOCK_BYTES = 1600


def speed(block_ms: float) -> float:
    return BLOCK_BYTES / (block_ms / 1000)


def run(rows: list[tuple[float, int, int]], *, instances: int = 1, host: int = 100, **store: Any) -> Result:
    """Replay rows of arrival in ms, prompt and session, each with one token of output."""
    arrivals, prompts, sessions = zip(*rows, strict=True)
    trace = Trace.from_columns(
        arrival=[ms / 1000 for ms in arrivals],
        prompt_tokens=list(prompts),
        output_tokens=[1] * len(rows),
        session=list(sessions),
    )
    cost = Affine(step_s=0.010, token_s=0.001)
    instance = Instance(cost=cost, num_blocks=9, kv_bytes=100, max_model_len=128)
    fields = {"read_bytes_per_s": speed(3), "write_bytes_per_s": speed(1), **store}
    cache = PrefixCache(tiers=[Host(chunks=host, bytes_per_s=speed(2)), Store(**fields)])
    policy = policies.vllm(prefix_caching=cache, max_num_batched_tokens=1000, routing="round_robin")
    return replay(trace, Cluster([instance] * instances), policy=policy, sample=0.05)


def column(result: Result, name: str) -> list[Any]:
    values: list[Any] = result.requests[name].to_list()
    return values


# Session 0 stores 6 blocks. Session 1 then takes the whole memory of the GPU, and 7 chunks.
PROMPTS = [(0, 96, 0), (1000, 120, 1)]


def test_a_prefix_that_the_host_has_lost_is_read_from_the_store_and_then_loaded() -> None:
    result = run([*PROMPTS, (2000, 100, 0)], host=7)
    # The host keeps the 7 chunks of session 1. The 6 of session 0 are read in 6 * 3 ms, in place of 6 of
    # those, and loaded in 6 * 2 ms. Steps without tokens see both ends at once; 4 tokens more take 14 ms.
    assert column(result, "store_tokens") == column(result, "loaded_tokens") == [0, 0, 96]
    assert column(result, "ttft")[2] == pytest.approx(0.018 + 0.012 + 0.014)
    assert column(result, "load_wait")[2] == pytest.approx(0.012)
    assert result.stats.instances[0].store == {
        "store": 0,
        "written_blocks": 6 + 7,
        "read_blocks": 6,
        "refused_reads": 0,
    }
    assert result.stats.instances[0].tier["evicted_blocks"] == 6 + 6


# The third request arrives at 2 s. The 6 chunks that it lacks are read by 3, 6, 9, 12, 15 and 18 ms later.
WAITS = Prefetch(stop="wait_complete", least_tokens=96)
TIMES_OUT = Prefetch(least_tokens=96, base_s=0.006, per_ki_token_s=0.004 * 1024 / 96)


@pytest.mark.parametrize(
    ("prefetch", "read", "loaded", "ttft"),
    [
        # All are read, and loaded in 6 * 2 ms. 4 tokens more take 14 ms.
        (WAITS, 6, 96, 0.018 + 0.012 + 0.014),
        # By 10 ms three have been read. They are loaded in 6 ms, and 52 tokens take 62 ms.
        (TIMES_OUT, 6, 48, 0.010 + 0.006 + 0.062),
        # None has been read as the request is looked at; 100 tokens take 110 ms.
        (Prefetch(stop="best_effort", least_tokens=96), 6, 0, 0.110),
        # None is read, as the store has 96 tokens.
        (Prefetch(stop="wait_complete", least_tokens=97), 0, 0, 0.110),
    ],
)
def test_a_request_waits_for_what_is_read_as_it_arrives_until_its_reads_stop(
    prefetch: Prefetch, read: int, loaded: int, ttft: float
) -> None:
    result = run([*PROMPTS, (2000, 100, 0)], host=7, prefetch=prefetch)
    assert column(result, "store_tokens") == column(result, "loaded_tokens") == [0, 0, loaded]
    assert column(result, "ttft")[2] == pytest.approx(ttft)
    used = result.stats.instances[0].store
    assert used is not None
    assert used["read_blocks"] == read


def test_chunks_are_written_once_they_are_in_the_host_s_memory() -> None:
    result = run([PROMPTS[0], (200, 8, 1)])
    # The prompt ends at 106 ms. Its 6 blocks are copied to the host by 118 ms, and written from then on.
    assert result.timeline is not None
    times = result.timeline["time_s"].round(3)
    tier, store = (
        dict(zip(times, result.timeline[name], strict=True)) for name in ("tier_chunks", "store_chunks")
    )
    # A chunk counts from the moment at which its copy is decided.
    assert [tier[time] for time in (0.1, 0.15)] == [6, 6]
    assert [store[time] for time in (0.1, 0.15)] == [0, 6]


@pytest.mark.parametrize("shared", [False, True])
def test_another_instance_has_what_one_has_written_to_a_store_that_they_share(*, shared: bool) -> None:
    result = run([(0, 96, 0), (1000, 100, 0)], instances=2, shared=shared)
    ttft = 0.018 + 0.012 + 0.014 if shared else 0.010 + 0.100
    assert column(result, "instance") == [0, 1]
    assert column(result, "ttft")[1] == pytest.approx(ttft)
    assert column(result, "store_tokens") == [0, 96 if shared else 0]
    assert len(result.stats.stores) == (1 if shared else 2)


def test_instances_share_the_bandwidth_of_a_store() -> None:
    rows = [(0, 96, 0), (1000, 100, 0), (1000, 110, 0)]
    result = run(rows, instances=3, shared=True, total_read_bytes_per_s=speed(2))
    # Each link carries 6 blocks in 18 ms, and the store 12 blocks in 24.
    assert column(result, "ttft")[1:] == pytest.approx([0.018 + 0.012 + 0.014, 0.024 + 0.012 + 0.024])


def test_a_chunk_that_is_being_written_is_not_there_yet() -> None:
    # Written from 118 ms on, in 100 ms a block.
    rows = [(0, 96, 0), (600, 100, 0), (800, 110, 0)]
    result = run(rows, instances=3, shared=True, write_bytes_per_s=speed(100))
    assert column(result, "store_tokens") == [0, 0, 96]


def test_a_full_store_takes_no_more_and_is_read_up_to_there() -> None:
    result = run([*PROMPTS, (2000, 100, 0)], host=7, chunks=4, eviction="none")
    assert column(result, "store_tokens") == [0, 0, 64]
    assert result.stats.stores[0] == {
        "capacity": 4,
        "chunks": 4,
        "peak_chunks": 4,
        "written_blocks": 4,
        "read_blocks": 4,
        "evicted_chunks": 0,
        "refused_chunks": 2 + 7,
    }


def test_chunks_that_were_looked_up_are_protected_by_a_lease() -> None:
    rows = [(2000, 100, 0), (3000, 120, 2), (4000, 120, 3), (5000, 120, 4), (6000, 110, 0)]
    found = {}
    for lease in (0.5, 5.0):
        result = run([*PROMPTS, *rows], host=7, chunks=21, eviction="lease", lease_s=lease)
        found[lease] = column(result, "store_tokens")[-1]
    # At 3 s the store has 13 + 7 of 21 chunks, which is 0.2% above 95%, so 20 * 5.2% = 2 chunks go. At 4 and
    # 5 s it has room for 3 of 7, and 21 * 10% = 3 go. Of these 8, 7 are session 1's, which were written at 1
    # s. The next is session 0's first, looked up at 2 s, unless its lease protects it: then session 2's.
    assert found == {0.5: 0, 5.0: 96}
