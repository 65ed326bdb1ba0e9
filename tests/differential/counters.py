"""The counters of an instance as the references have them, by the engine's names."""

from __future__ import annotations

from typing import Any

from paceline.testing.reference.policy_sim import Outcome


def usage_of(replica: Any) -> dict[str, int]:
    """Return what the engine's statistics of one instance must be, as far as all references count."""
    usage = replica.usage
    return {
        "steps": usage.steps,
        "busy_ticks": usage.busy,
        "preemptions": usage.preemptions,
        "finished": usage.finished,
        "running_ticks": usage.running_time,
        "waiting_ticks": usage.waiting_time,
        "kv_token_ticks": usage.kv_token_time,
        "peak_running": usage.peak_running,
        "peak_waiting": usage.peak_waiting,
        "peak_blocks": usage.peak_blocks,
    }


def counters_of(replica: Any) -> dict[str, int]:
    """Return the same and what only the simulator for policies counts."""
    counts, scheduler = replica.counts, replica.scheduler
    return {
        **usage_of(replica),
        **{name: getattr(counts, name) for name in counts.__dataclass_fields__},
        # A preemption copies blocks at once; the copies are charged to the next step, if there is one.
        "swapped_out_blocks": counts.swapped_out_blocks + scheduler.state.copied_out,
        "swap_overflows": scheduler.memory.swap_overflows,
    }


def cached_by(replica: Any) -> dict[str, int]:
    """Return what the prefix cache of the simulator for policies counts."""
    memory = replica.scheduler.memory
    return {
        "prefix_queries": memory.queried_tokens,
        "prefix_hits": memory.hit_tokens,
        "evictions": memory.pool.evictions,
    }


def tier_of(replica: Any) -> dict[str, int] | None:
    """Return what the tier of the simulator for policies counts; None without one."""
    tier, copies = replica.scheduler.state.tier, replica.scheduler.state.copies
    if copies is not None:
        tree = replica.scheduler.memory.tree
        return {
            "capacity": tree.capacity,
            "peak_chunks": tree.peak,
            "stored_blocks": tree.stored,
            "loaded_blocks": copies.loaded_blocks,
            "whole_loads": 0,
            "evicted_blocks": tree.host_evictions,
            "refused_stores": tree.refused,
        }
    if tier is None:
        return None
    return {
        "capacity": tier.chunks.capacity,
        "peak_chunks": tier.peak_chunks,
        "stored_blocks": tier.stored_blocks,
        "loaded_blocks": tier.loaded_blocks,
        "whole_loads": tier.whole_loads,
        "evicted_blocks": tier.chunks.evicted * tier.chunk_blocks,
        "refused_stores": tier.refused,
    }


def store_of(replica: Any) -> dict[str, int] | None:
    """Return what the simulator for policies counts of an instance's copies to a store; None without one."""
    tier = replica.scheduler.state.tier or replica.scheduler.state.copies
    if tier is None or tier.below is None:
        return None
    below = tier.below
    return {
        "store": below.config["store"],
        "written_blocks": below.blocks["write"],
        "read_blocks": below.blocks["read"],
        "refused_reads": below.refused,
    }


def stores_of(cluster: Outcome) -> list[dict[str, int | None]]:
    """Return what the simulator for policies counts of the stores that instances have."""
    states = [replica.scheduler.state for replica in cluster.replicas]
    tiers = [state.tier or state.copies for state in states]
    below = [tier.below for tier in tiers if tier is not None and tier.below is not None]
    stores = {one.config["store"]: one.store for one in below}
    return [
        {
            "capacity": store.capacity,
            "chunks": len(store.objects),
            "peak_chunks": store.peak,
            "written_blocks": store.blocks["write"],
            "read_blocks": store.blocks["read"],
            "evicted_chunks": store.evicted,
            "refused_chunks": store.refused,
        }
        for _, store in sorted(stores.items())
    ]


def carried(stats: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return transfers and bytes of the engine's network, and of each used medium, with its busy ticks."""
    network = stats["network"]
    media = {
        medium["medium"]: (medium["transfers"], medium["bytes"], medium["busy_ticks"])
        for medium in network["media"]
        if medium["transfers"]
    }
    return {"all": (network["transfers"], network["bytes"]), **media}


def carried_by(outcome: Outcome) -> dict[str, tuple[int, ...]]:
    """Return the same of the reference."""
    sent = outcome.links.sent
    return {"all": (len(sent), sum(sent)), **outcome.links.counters(outcome.end)}
