"""The tier of an instance in the host's memory: its size, its links, and what it is refused with."""

from __future__ import annotations

from typing import Any

import pytest

from paceline import (
    AcceptanceLength,
    Cluster,
    Draft,
    HostTier,
    Instance,
    Speculation,
    Trace,
    policies,
    replay,
)
from paceline.cost import Affine
from paceline.errors import ConfigError


def small(**fields: Any) -> Instance:
    """Return an instance of 16-token blocks whose steps take 10 ms, and 1 ms a token."""
    cost = Affine(step_s=0.010, token_s=0.001)
    return Instance(cost=cost, num_blocks=40, kv_bytes=100, max_model_len=500, **fields)


TIER = HostTier(chunks=100, bytes_per_s=16e5)
"""A tier to which a block of 16 tokens of 100 bytes takes 1 ms."""


def test_the_size_and_the_times_follow_from_the_model_and_the_gpu() -> None:
    # Llama-3.1-8B has 32 layers of 8 KV heads of 128 numbers, twice, in 2 bytes: 2 MiB for 16 tokens.
    for gpus in (1, 2):
        instance = Instance(
            model="llama-3.1-8b", gpu="h100-sxm", tensor_parallel=gpus, tier=HostTier(gib=3, chunk_blocks=4)
        )
        wire = instance.to_wire()["tier"]
        assert wire["chunks"] == 3 * 2**30 // (4 * 2**21)
        # Each GPU copies its share over its own 64 GB/s.
        assert wire["load"] == {"fixed": 0, "block": round(2**21 / gpus / 64e9 * 1e12)}


def test_a_tier_is_written_to_toml_with_its_instance() -> None:
    tier = HostTier(
        chunks=7, chunk_blocks=2, eviction="arc", prompt_only=False, store_threshold=2, poll="end"
    )
    instance = Instance(model="llama-3.1-8b", gpu="h100-sxm", tier=tier)
    assert Instance.from_toml(instance.to_toml()) == instance
    assert Cluster.from_toml(Cluster([instance]).to_toml()) == Cluster([instance])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "one of gib and chunks of a HostTier must be given, were None and None"),
        ({"gib": 1, "chunks": 1}, "one of gib and chunks"),
        ({"gib": 0}, "gib of a HostTier must be above 0 GiB, was 0"),
        ({"chunks": 0}, "chunks of a HostTier must be .*, was 0"),
        ({"chunks": 1, "chunk_blocks": 0}, "chunk_blocks of a HostTier must be"),
        ({"chunks": 1, "store_threshold": -1}, "store_threshold of a HostTier must be"),
        ({"chunks": 1, "bytes_per_s": 0}, "bytes_per_s of a HostTier must be above 0 bytes, was 0"),
        ({"chunks": 1, "latency_s": -1}, "latency_s of a HostTier must be 0 or more seconds, was -1"),
        ({"chunks": 1, "eviction": "fifo"}, "eviction of a HostTier must be one of lru, arc, was 'fifo'"),
    ],
)
def test_numbers_out_of_range_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        HostTier(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tier": HostTier(gib=1e-9)}, "must hold 1 to .* chunks of"),
        ({"pipeline_parallel": 2}, "unless pipeline_parallel is 1, was 2"),
        ({"model": "qwen3-next-80b-a3b", "tensor_parallel": 4}, "states a chunk does not have"),
    ],
)
def test_what_is_not_modelled_with_a_tier_is_refused(fields: dict[str, Any], message: str) -> None:
    plain = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "tier": HostTier(gib=1)}
    with pytest.raises(ConfigError, match=message):
        Instance(**{**plain, **fields})


@pytest.mark.parametrize("method", ["eagle", "mtp", "draft_model"])
def test_hits_of_a_draft_head_lose_their_last_block_beside_a_tier(method: Any) -> None:
    # vLLM 0.33.0, num_hash_lookahead_tokens in config/vllm.py: with a connector, hashes do not cover the next
    # token, so that a hit of a head drops its last block. The KV of a draft model depends on no later token.
    drafts = Speculation(
        tokens=1, acceptance=AcceptanceLength(1.5), method=method, draft=Draft(cost=Affine(step_s=0.001))
    )
    rules = []
    for tier in (None, TIER):
        wire = small(speculation=drafts, tier=tier).to_wire()["speculation"]
        rules.append((wire["hash_lookahead"], wire["drops_last_block"]))
    assert rules == ([(0, False)] * 2 if method == "draft_model" else [(1, False), (0, True)])


def test_a_tier_without_model_needs_its_size_and_its_bandwidth() -> None:
    with pytest.raises(ConfigError, match="needs a model and a gpu"):
        small(tier=HostTier(gib=1))
    assert small(tier=TIER).to_wire()["tier"]["store"]["block"] == 10**9


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (policies.vllm(prefix_caching=False), "without a prefix cache"),
        (policies.sglang(prefix_caching=True), "stages are running and admit"),
    ],
)
def test_a_policy_that_a_tier_is_not_modelled_with_is_refused(policy: Any, message: str) -> None:
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[20], output_tokens=[2])
    with pytest.raises(ConfigError, match=message):
        replay(trace, Cluster([small(tier=TIER)]), policy=policy)


def test_decodes_are_leapt_over_between_the_moments_at_which_a_copy_matters() -> None:
    # The only request computes its prompt in one step and yields 400 tokens, one a step.
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[64], output_tokens=[400])
    policy = policies.vllm(prefix_caching=True)
    events = {}
    for prompt_only in (True, False):
        tier = HostTier(chunks=100, bytes_per_s=16e5, prompt_only=prompt_only)
        stats = replay(trace, Cluster([small(tier=tier)]), policy=policy).stats
        assert stats.steps == 400
        events[prompt_only] = stats.events
    # The arrival, the prompt, the report of its store, and the end. The output fills 24 or 25 blocks, each of
    # which is stored and reported in a few events.
    assert events[True] <= 6
    assert events[False] <= 6 + 3 * 25
