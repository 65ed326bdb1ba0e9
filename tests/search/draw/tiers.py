"""A tier in the host's memory: its size, its rules and its links."""

from __future__ import annotations

from search.draw import instances, preemption, ranking, speculation, stages
from search.draw.expressions import Wire
from search.draw.source import Source


def prepare(source: Source, instance: Wire) -> None:
    """Make an instance one that can have a tier: it schedules as vLLM V1 does, with a prefix cache."""
    instance.pop("state_blocks", None)
    instance.pop("state_bytes", None)
    scheduler = instance["scheduler"]
    admit = {"kind": "admit", "chunked": True, "unless_preempted": True, "unless_swapped": False}
    scheduler |= {
        "max_num_batched_tokens": source.pick((3, 5, 8, 17, 32, 64)),
        "stages": [{"kind": "running"}, {**admit, "count_decodes": True, "gather": None}],
        "exclusive_prefill": False,
        "order": ranking.unranked(source, cached=True),
        "admission": {"kind": "wait"},
        "watermark_blocks": 0,
        "victim": source.pick(("latest", "worst")),
        "allocation": source.pick(("chunk", "chunk_if_all_fits")),
        "decodes_first": False,
        "preemption": {"kind": "recompute"},
        "requeue_late": False,
        "output_reserve": None,
        "prompt_batch": None,
        "prefix_cache": {"unknown_first": source.chance(0.7)},
        "schedule_ahead": source.chance(0.5),
        "drop_unseen": False,
        "unseen_ends": False,
        "joining": {},
        "varying": {},
    }
    instance.pop("speculation", None)
    decodes_last = source.chance(0.35)
    if decodes_last:
        scheduler |= _decodes_last(source)
        instances.widen_chunks(source, scheduler, instance["block_tokens"])
        if scheduler["output_reserve"] and source.chance(0.6):
            scheduler["prefix_cache"] = instances.radix_tree(source)
    else:
        instance |= speculation.speculation(source, scheduler, chance=0.5)
    # Little more memory than the longest sequence needs, so that cached prefixes are evicted.
    slots = 3 * speculation.MOST if "speculation" in instance else 0
    instance["blocks"] = max(1, (source.whole(66, 110) + slots) // instance["block_tokens"])


def _decodes_last(source: Source) -> Wire:
    """Draw a scheduler that admits before decodes, as SGLang's does."""
    several = [
        stages.PREFILLS,
        stages.admit(source, chunked=True, gathers=False),
        {**stages.decodes(source), "over_prefills": False},
    ]
    sits_out = source.chance(0.3)
    if sits_out:
        several[-1] |= {"sits_out": True, "charged": False}
    return {
        "stages": several,
        "exclusive_prefill": not sits_out,
        "allocation": "chunk_if_all_fits",
        "victim": source.pick(preemption.VICTIMS),
        "requeue_last": source.chance(0.8),
        "output_reserve": instances.output_reserve(source) if source.chance(0.85) else None,
        **({"receive_interval": source.pick((2, 3, 5, 9))} if source.chance(0.25) else {}),
    }


def tier(source: Source, instance: Wire) -> None:
    """Give an instance a tier in most of the cases in which it can have one."""
    scheduler = instance["scheduler"]
    kinds = [stage["kind"] for stage in scheduler["stages"]]
    decodes_last = kinds == ["prefills", "admit", "decodes"] and not scheduler["stages"][2]["over_prefills"]
    admit = scheduler["stages"][1] if len(kinds) > 1 else {}
    able = (
        scheduler["prefix_cache"] is not None
        and scheduler["order"]["kind"] in ("arrival", "priority", "longest_prefix")
        and (decodes_last or (kinds == ["running", "admit"] and admit["unless_preempted"]))
        and admit["chunked"]
        and admit["gather"] is None
        and scheduler["allocation"] in ("chunk", "chunk_if_all_fits")
        and not (scheduler["decodes_first"] or scheduler["requeue_late"])
        and not any((scheduler.get("joining") or {}).values())
    )
    tree = "tree" in (scheduler["prefix_cache"] or {})
    if not able or (tree and (not decodes_last or "speculation" in instance)) or not source.chance(0.6):
        return
    if tree and source.chance(0.97):
        instance["tier"] = _of_tree(source)
        return
    if "speculation" in instance:
        instance["speculation"]["hash_lookahead"] = 0
        instance["speculation"].pop("slots", None)
    write = source.pick(("completed", "completed", "through", "selective", "selective", "back", "back"))
    back, completed = write == "back", write == "completed"
    layers = source.pick((1, 2, 5) if decodes_last else (0, 0, 1, 2, 5))
    instance["tier"] = {
        "write": write,
        "chunks": source.pick((1, 2, 4, 8, 30, 1000)),
        "chunk_blocks": 1 if back else source.pick((1, 1, 1, 2, 3)),
        "eviction": source.pick(("lru", "arc")),
        "prompts_only": not back and source.chance(0.5),
        "store_threshold": source.pick((0, 0, 0, 2, 3)) if completed else 0,
        "sync_tokens": 0 if layers else source.pick((0, 0, 4, 30)),
        "overlap_layers": layers,
        "polls_at_end": source.chance(0.3),
        "store": copy_time(source),
        "load": copy_time(source),
    }


def _of_tree(source: Source) -> Wire:
    """Draw the host's memory of a radix tree, whose nodes are stored and evicted whole."""
    return {
        "write": source.pick(("through", "through", "selective", "back", "back")),
        "chunks": source.pick((1, 4, 16, 30, 100, 1000)),
        "chunk_blocks": 1,
        "eviction": "lru",
        "prompts_only": False,
        "store_threshold": 0,
        "sync_tokens": 0,
        "overlap_layers": source.pick((1, 2, 5)),
        "polls_at_end": True,
        "store": copy_time(source),
        "load": copy_time(source),
    }


def stores(source: Source, config: Wire) -> None:
    """Put stores below some of the tiers; instances with equal chunks may share one."""
    able = [one for one in config["instances"] if _can_have_store(one)]
    if not able or not source.chance(0.6):
        return
    config["stores"] = []
    sizes: list[tuple[int, int]] = []
    for one in able:
        size = one["block_tokens"], one["tier"]["chunk_blocks"]
        common = sizes.index(size) if size in sizes and source.chance(0.8) else len(sizes)
        if common == len(sizes):
            sizes.append(size)
            config["stores"].append(store(source))
        if source.chance(0.7):
            # The host loses chunks that the store keeps.
            one["tier"]["chunks"] = source.pick((2, 3, 5, 8))
        one["tier"]["below"] = {"store": common, "write": copy_time(source), "read": copy_time(source)}
        tree = "tree" in one["scheduler"]["prefix_cache"]
        if "receive_interval" not in one["scheduler"] and (tree or source.chance(0.5)):
            one["tier"]["below"]["prefetch"] = prefetch(source)


def prefetch(source: Source) -> Wire:
    timeout = {"kind": "timeout", "base": source.ticks(0, 9), "per_ki_token": source.ticks(0, 900)}
    return {
        "least": source.pick((0, 4, 9, 30)),
        "stop": source.pick(({"kind": "best_effort"}, {"kind": "wait_complete"}, timeout, timeout)),
    }


def _can_have_store(instance: Wire) -> bool:
    tier = instance.get("tier")
    scheduler = instance["scheduler"]
    if tier is None or scheduler["schedule_ahead"] or tier["store_threshold"] > 1:
        return False
    # The nodes of a tree are read as requests join the queue, and written as they are inserted.
    tree = "tree" in (scheduler["prefix_cache"] or {})
    return not tree or ("receive_interval" not in scheduler and tier["write"] != "back")


def store(source: Source) -> Wire:
    lease = {
        "ttl": source.pick((0, 5, 100)),
        "watermark": source.pick((500_000, 800_000, 950_000)),
        "share": source.pick((50_000, 300_000)),
    }
    kind = source.pick(("none", "lru", "lru", "lease", "lease"))
    return {
        "chunks": source.pick((None, 1, 3, 8, 30)),
        "eviction": {"kind": kind, **(lease if kind == "lease" else {})},
        "write": source.pick((0, 0, 2, 9)),
        "read": source.pick((0, 0, 2, 9)),
    }


def copy_time(source: Source) -> Wire:
    return {"fixed": source.pick((0, 1, 7)), "block": source.pick((0, 1, 3, 20))}
