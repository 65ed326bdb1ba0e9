"""Tiers of a prefix cache: their sizes, their links, and what they are refused with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline import AcceptanceLength, Cluster, Draft, Instance, Policy, Speculation, Trace, policies, replay
from paceline.cost import Affine
from paceline.errors import ConfigError, PolicyError
from paceline.policy import Host, PrefixCache


def small(**fields: Any) -> Instance:
    """Return an instance of 16-token blocks whose steps take 10 ms, and 1 ms a token."""
    cost = Affine(step_s=0.010, token_s=0.001)
    return Instance(cost=cost, num_blocks=40, kv_bytes=100, max_model_len=500, **fields)


TIER = Host(chunks=100, bytes_per_s=16e5)
"""A tier to which a block of 16 tokens of 100 bytes takes 1 ms."""


def tiered(tier: Host) -> Policy:
    return policies.vllm(prefix_caching=PrefixCache(tiers=[tier]))


def test_the_size_and_the_times_follow_from_the_model_and_the_gpu() -> None:
    # Llama-3.1-8B has 32 layers of 8 KV heads of 128 numbers, twice, in 2 bytes: 2 MiB for 16 tokens.
    for gpus in (1, 2):
        instance = Instance(model="llama-3.1-8b", gpu="h100-sxm", tensor_parallel=gpus)
        wire = Host(gib=3, chunk_blocks=4).on(instance)
        assert wire["chunks"] == 3 * 2**30 // (4 * 2**21)
        # Each GPU copies its share over its own 64 GB/s.
        assert wire["load"] == {"fixed": 0, "block": round(2**21 / gpus / 64e9 * 1e12)}


def test_a_ratio_is_of_the_blocks_of_the_gpu() -> None:
    # Of 40 blocks the engine uses 39. Twice as many are 78, or 26 chunks of 3.
    policy = tiered(Host(ratio=2, chunk_blocks=3, bytes_per_s=1e9))
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[20], output_tokens=[1])
    tier = replay(trace, Cluster([small()]), policy=policy).stats.instances[0].tier
    assert tier is not None
    assert tier["capacity"] == 26
    with pytest.raises(
        ConfigError, match=r"ratio of a Host must be of 1 to .* chunks, was 0\.01, which is 0"
    ):
        Host(ratio=0.01, bytes_per_s=1e9).on(small(), gpu_blocks=39)


def test_pipeline_stages_copy_their_layers_side_by_side() -> None:
    # The 32 layers of Llama-3.1-8B are 11, 11 and 10. A layer of 16 tokens takes 64 KiB; one in the host's
    # memory has all layers.
    instance = Instance(model="llama-3.1-8b", gpu="h100-sxm", pipeline_parallel=3)
    wire = Host(gib=1).on(instance)
    assert wire["chunks"] == 2**30 // 2**21
    assert wire["store"]["block"] == round(11 * 2**16 / 64e9 * 1e12)


def test_an_overlapped_load_is_spread_over_the_layers_of_the_largest_stage() -> None:
    # Of the 32 layers of Llama-3.1-8B, 3 stages have 11, 11 and 10.
    instance = Instance(model="llama-3.1-8b", gpu="h100-sxm", pipeline_parallel=3)
    layers = [Host(gib=1, **fields).on(instance)["overlap_layers"] for fields in OVERLAPS]
    assert layers == [0, 11, 7]
    with pytest.raises(ConfigError, match="need a model, or layers of a Host"):
        Host(chunks=9, bytes_per_s=1e9, overlap="layers").on(small())


OVERLAPS: list[dict[str, Any]] = [{}, {"overlap": "layers"}, {"overlap": "layers", "layers": 7}]


def test_a_tier_is_written_to_toml_with_its_policy() -> None:
    tier = Host(chunks=7, chunk_blocks=2, eviction="arc", prompt_only=False, store_threshold=2, poll="end")
    back = tiered(Host(chunks=7, write="back", prompt_only=False, overlap="layers", layers=3))
    assert Policy.from_toml(back.to_toml()) == back
    policy = tiered(tier)
    assert Policy.from_toml(policy.to_toml()) == policy
    assert Policy.from_toml(policy.to_toml()) != tiered(TIER)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "one of gib, chunks and ratio of a Host must be given, were None, None and None"),
        ({"gib": 1, "chunks": 1}, "one of gib, chunks and ratio"),
        ({"chunks": 1, "ratio": 2.0}, "one of gib, chunks and ratio"),
        ({"ratio": 0}, "ratio of a Host must be above 0, was 0"),
        ({"gib": 0}, "gib of a Host must be above 0 GiB, was 0"),
        ({"chunks": 0}, "chunks of a Host must be .*, was 0"),
        ({"chunks": 1, "chunk_blocks": 0}, "chunk_blocks of a Host must be"),
        ({"chunks": 1, "store_threshold": -1}, "store_threshold of a Host must be"),
        ({"chunks": 1, "bytes_per_s": 0}, "bytes_per_s of a Host must be above 0 bytes, was 0"),
        ({"chunks": 1, "latency_s": -1}, "latency_s of a Host must be 0 or more seconds, was -1"),
        ({"chunks": 1, "write": "back"}, "prompt_only of a Host must be False where write is 'back'"),
        (
            {"chunks": 1, "write": "back", "prompt_only": False, "chunk_blocks": 2},
            "chunk_blocks of a Host must be 1 where write is 'back', was 2",
        ),
        (
            {"chunks": 1, "write": "through", "store_threshold": 2},
            "store_threshold of a Host must be 0 or 1 unless write is 'completed', was 2",
        ),
        (
            {"chunks": 1, "overlap": "layers", "sync_load_tokens": 9},
            "sync_load_tokens of a Host must be 0 where overlap is 'layers', was 9",
        ),
        ({"chunks": 1, "layers": 9}, "layers of a Host must be None where overlap is 'none', was 9"),
        ({"chunks": 1, "overlap": "layers", "layers": 0}, "layers of a Host must be"),
        ({"chunks": 1, "eviction": "fifo"}, "eviction of a Host must be one of lru, arc, was 'fifo'"),
    ],
)
def test_numbers_out_of_range_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        Host(**fields)


@pytest.mark.parametrize(
    ("tiers", "message"),
    [
        ([TIER, TIER], "must be a Host, or a Host and a Store below it, through which all chunks go, were"),
        (TIER, "must be a sequence of Host and Store, was Host"),
        (["host"], "must be a sequence of Host and Store, was"),
    ],
)
def test_tiers_that_are_not_modelled_are_refused(tiers: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=f"tiers of a PrefixCache {message}"):
        PrefixCache(tiers=tiers)


@pytest.mark.parametrize(
    ("tier", "fields", "message"),
    [
        (Host(gib=1e-9), {}, "must hold 1 to .* chunks of"),
        (TIER, {"model": "qwen3-next-80b-a3b", "tensor_parallel": 4}, "states a chunk does not have"),
    ],
)
def test_what_is_not_modelled_with_a_tier_is_refused(
    tier: Host, fields: dict[str, Any], message: str
) -> None:
    instance = Instance(**{"model": "llama-3.1-8b", "gpu": "h100-sxm", **fields})
    with pytest.raises(ConfigError, match=message):
        tier.on(instance)


@pytest.mark.parametrize("method", ["eagle", "mtp", "draft_model"])
def test_hits_of_a_draft_head_lose_their_last_block_beside_a_tier(method: Any) -> None:
    # vLLM 0.33.0, num_hash_lookahead_tokens in config/vllm.py: with a connector, hashes do not cover the next
    # token, so that a hit of a head drops its last block. The KV of a draft model depends on no later token.
    drafts = Speculation(
        tokens=1, acceptance=AcceptanceLength(1.5), method=method, draft=Draft(cost=Affine(step_s=0.001))
    )
    rules = []
    for below in (False, True):
        wire = small(speculation=drafts).to_wire(tiered=below)["speculation"]
        rules.append((wire["hash_lookahead"], wire["drops_last_block"]))
    assert rules == ([(0, False)] * 2 if method == "draft_model" else [(1, False), (0, True)])


def test_a_tier_without_model_needs_its_size_and_its_bandwidth() -> None:
    with pytest.raises(ConfigError, match="need a model and a gpu"):
        Host(gib=1).on(small())
    assert TIER.on(small())["store"]["block"] == 10**9


def test_stages_that_a_tier_is_not_modelled_with_are_refused() -> None:
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[20], output_tokens=[2])
    plain = policies.sglang(prefix_caching=True)
    cache = PrefixCache(tiers=[TIER])
    policy = replace(plain, scheduler=replace(plain.scheduler_of(0), prefix_cache=cache))
    with pytest.raises(ConfigError, match="stages are running and admit"):
        replay(trace, Cluster([small()]), policy=policy)


def test_decodes_are_leapt_over_between_the_moments_at_which_a_copy_matters() -> None:
    # The only request computes its prompt in one step and yields 400 tokens, one a step.
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[64], output_tokens=[400])
    events = {}
    for prompt_only in (True, False):
        policy = tiered(Host(chunks=100, bytes_per_s=16e5, prompt_only=prompt_only))
        stats = replay(trace, Cluster([small()]), policy=policy).stats
        assert stats.steps == 400
        events[prompt_only] = stats.events
    # The arrival, the prompt, the report of its store, and the end. The output fills 24 or 25 blocks, each of
    # which is stored and reported in a few events.
    assert events[True] <= 6
    assert events[False] <= 6 + 3 * 25
