"""INV-15 with a tier in the host's memory and a store below: the account, and chunks that requests share."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from differential import wire
from differential.counters import stores_of
from differential.timelines import SAMPLES, timeline_of_engine
from paceline import _core
from paceline.testing.reference.policy_sim import Outcome, TraceRequest, replay

BLOCK = 4
COLUMNS = (
    "tier_chunks",
    "store_chunks",
    "kv_tokens",
    "kv_arriving_tokens",
    "kv_receiving_blocks",
    "kv_used_blocks",
)
ADMIT = {
    "kind": "admit",
    "chunked": True,
    "unless_preempted": True,
    "unless_swapped": False,
    "count_decodes": True,
    "gather": None,
}


def copies() -> st.SearchStrategy[dict[str, int]]:
    return st.fixed_dictionaries({"fixed": st.sampled_from([0, 3]), "block": st.sampled_from([1, 5, 30])})


@st.composite
def tiered(draw: st.DrawFn) -> dict[str, Any]:
    """Draw an instance with little memory for KV and a tier."""
    tier = st.fixed_dictionaries(
        {
            "chunks": st.sampled_from([2, 6, 20, 500]),
            "chunk_blocks": st.sampled_from([1, 1, 2]),
            "eviction": st.sampled_from(["lru", "arc"]),
            "prompts_only": st.booleans(),
            "store_threshold": st.sampled_from([0, 0, 2]),
            "sync_tokens": st.sampled_from([0, 0, 12]),
            "polls_at_end": st.booleans(),
            "store": copies(),
            "load": copies(),
        }
    )
    scheduler = {
        "max_num_batched_tokens": draw(st.sampled_from([8, 32, 100])),
        "max_num_seqs": draw(st.sampled_from([2, 8])),
        "long_prefill_token_threshold": 0,
        "threshold_when_alone": True,
        "stages": [{"kind": "running"}, ADMIT],
        "exclusive_prefill": False,
        "order": {"kind": "arrival"},
        "admission": {"kind": "wait"},
        "victim": "latest",
        "allocation": draw(st.sampled_from(["chunk", "chunk_if_all_fits"])),
        "watermark_blocks": 0,
        "watermark_when_idle": False,
        "spare_block": False,
        "decodes_first": False,
        "refund": True,
        "stop_at_own_preemption": False,
        "preemption": {"kind": "recompute"},
        "requeue_late": False,
        "prefix_cache": {"unknown_first": True},
        "schedule_ahead": False,
    }
    return {
        "blocks": draw(st.integers(12, 24)),
        "block_tokens": BLOCK,
        "max_model_len": None,
        "cost": {"kind": "affine", "step": 10, "token": 1, "kv_token": 0},
        "scheduler": scheduler,
        "tier": draw(tier),
    }


@st.composite
def conversations(draw: st.DrawFn) -> list[TraceRequest]:
    """Draw turns of a few conversations, whose prompts share blocks from their start."""
    arrival, requests = 0, []
    for _ in range(draw(st.integers(2, 9))):
        arrival += draw(st.sampled_from([0, 5, 60, 300]))
        prompt, output = draw(st.integers(1, 36)), draw(st.integers(1, 12))
        family = draw(st.integers(0, 2))
        ids = tuple(100 * family + at for at in range(prompt // BLOCK))
        requests.append(TraceRequest(arrival, prompt, output, prefix=ids))
    return requests


@st.composite
def sharing(draw: st.DrawFn) -> dict[str, Any]:
    """Draw two instances with little memory that share a store."""
    instance = draw(tiered())
    tier = {**instance["tier"], "store_threshold": 0}
    link = st.fixed_dictionaries({"store": st.just(0), "write": copies(), "read": copies()})
    instances = [{**instance, "tier": {**tier, "below": draw(link)}} for _ in range(2)]
    lease = {"kind": "lease", "ttl": 100, "watermark": 800_000, "share": 200_000}
    store = {
        "chunks": draw(st.sampled_from([2, 6, 20, None])),
        "eviction": draw(st.sampled_from([{"kind": "none"}, {"kind": "lru"}, lease])),
        "write": draw(st.sampled_from([0, 8])),
        "read": draw(st.sampled_from([0, 8])),
    }
    return {"instances": instances, "stores": [store]}


def configuration(instance: dict[str, Any], sample: dict[str, int]) -> dict[str, Any]:
    rules = {"on_arrival": {"rule": "round_robin"}, "on_prefilled": None, "on_answering": None, "every": []}
    return {"instances": [instance], "routing": rules, "until": None, "sample": sample}


def engine(config: dict[str, Any], requests: list[TraceRequest], *, leap: bool) -> _core.Outcome:
    wired = msgspec.json.encode({**config, "leap": leap, "record_decisions": False})
    return _core.replay(wired, wire.columns(requests, BLOCK), None)


def read(rows: list[dict[str, Any]]) -> list[tuple[int, ...]]:
    return [tuple(row[name] for name in COLUMNS) for row in rows]


@given(instance=tiered(), requests=conversations(), sample=SAMPLES)
def test_a_tier_holds_at_every_sample_what_the_reference_says(
    instance: dict[str, Any], requests: list[TraceRequest], sample: dict[str, int]
) -> None:
    config = configuration(instance, sample)
    expected: Outcome = replay(config, requests, prefix_block_tokens=BLOCK)
    assert expected.timeline is not None
    leapt, stepped = (timeline_of_engine(engine(config, requests, leap=leap)) for leap in (True, False))
    assert read(leapt[2]) == read(stepped[2]) == read(expected.timeline[2])
    assert all(row["tier_chunks"] <= instance["tier"]["chunks"] for row in leapt[2])


@settings(max_examples=25)  # each replays two instances three times
@given(cluster=sharing(), requests=conversations(), sample=SAMPLES)
def test_a_shared_store_holds_at_every_sample_what_the_reference_says(
    cluster: dict[str, Any], requests: list[TraceRequest], sample: dict[str, int]
) -> None:
    config = {**configuration(cluster["instances"][0], sample), **cluster}
    expected: Outcome = replay(config, requests, prefix_block_tokens=BLOCK)
    assert expected.timeline is not None
    outcomes = [engine(config, requests, leap=leap) for leap in (True, False)]
    leapt, stepped = (timeline_of_engine(outcome)[2] for outcome in outcomes)
    assert read(leapt) == read(stepped) == read(expected.timeline[2])
    capacity = cluster["stores"][0]["chunks"]
    assert all(capacity is None or row["store_chunks"] <= capacity for row in leapt)
    counts = [msgspec.json.decode(outcome.stats)["stores"] for outcome in outcomes]
    assert counts == [stores_of(expected)] * 2
