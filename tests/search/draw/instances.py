"""An instance: its memory, its limits and its scheduler."""

from __future__ import annotations

from search.draw import (
    accumulators,
    costs,
    expressions,
    fields,
    preemption,
    ranking,
    speculation,
    stages,
    step_limits,
)
from search.draw.expressions import Wire
from search.draw.source import Source

LONGEST = 25 + 40


def instance(source: Source, *, ranked: bool, block_tokens: int | None) -> Wire:
    block_tokens = block_tokens or source.pick((1, 1, 2, 3, 4, 8, 16))
    scheduler = ranked_scheduler(source) if ranked else unranked_scheduler(source)
    room = source.pick((1, 1, 1, 1, 1, 2) if source.pressed else (1, 2, 3, 8))
    tokens = source.whole(30, LONGEST) if source.chance(0.15) else room * source.whole(LONGEST, 80)
    blocks = max(1, tokens // block_tokens) if source.chance(0.95) else source.whole(1, 4)
    scheduler["watermark_blocks"] = min(scheduler["watermark_blocks"], blocks - 1)
    sits_out = any(stage.get("sits_out") for stage in scheduler["stages"])
    drafts = {} if sits_out else speculation.speculation(source, scheduler)
    if not drafts and _may_have_whole_chunks(scheduler, block_tokens) and source.chance(0.3):
        scheduler["whole_block_chunks"] = True
    widen_chunks(source, scheduler, block_tokens)
    return {
        "blocks": blocks,
        "block_tokens": block_tokens,
        "max_model_len": source.pick((None, None, None, None, 60, 40)),
        "kv_bytes_per_token": source.pick((0, 1, 1, 3)),
        "kv_layers": source.pick((1, 2, 3, 8)),
        **_states(source, caches=scheduler["prefix_cache"] is not None),
        "cost": costs.cost(source),
        "traffic": source.maybe(0.2, lambda: costs.traffic(source)),
        "scheduler": scheduler,
        **drafts,
    }


def keeps_requests(one: Wire) -> bool:
    """Return whether no request leaves an instance: it has a radix tree, or drops unseen tokens."""
    scheduler = one["scheduler"]
    return scheduler.get("drop_unseen", False) or "tree" in (scheduler["prefix_cache"] or {})


def _may_have_whole_chunks(scheduler: Wire, block_tokens: int) -> bool:
    """Return whether chunks of whole blocks are modelled, and one fits into each step."""
    varying = scheduler.get("varying") or {}
    return (
        scheduler["preemption"]["kind"] == "recompute"
        and not any(stages.has(scheduler["stages"], kind) for kind in ("select", "layered"))
        and not varying.get("chunk")
        and block_tokens > 1
        and _has_chunk_of_one_block(scheduler, block_tokens)
    )


def _has_chunk_of_one_block(scheduler: Wire, block_tokens: int) -> bool:
    """Return whether a block fits into each step."""
    varying = scheduler.get("varying") or {}
    tokens = varying["tokens"]["least"] if varying.get("tokens") else scheduler["max_num_batched_tokens"]
    return block_tokens <= tokens and not 0 < scheduler["long_prefill_token_threshold"] < block_tokens


def widen_chunks(source: Source, scheduler: Wire, block_tokens: int) -> None:
    """Give a step room for a block, mostly, if prompts are charged in whole ones."""
    if not scheduler.get("output_reserve") or _has_chunk_of_one_block(scheduler, block_tokens):
        return
    if source.chance(0.03):
        return
    scheduler.pop("varying", None)
    if scheduler["long_prefill_token_threshold"] > 0:
        scheduler["long_prefill_token_threshold"] = max(
            scheduler["long_prefill_token_threshold"], block_tokens
        )
    scheduler["max_num_batched_tokens"] = max(scheduler["max_num_batched_tokens"], block_tokens)


def _states(source: Source, *, caches: bool) -> Wire:
    """Draw what a request keeps beside its tokens; nothing where prefixes are cached, which is refused."""
    if caches or not source.chance(0.15):
        return {}
    return {"state_blocks": source.pick((0, 1, 2, 3)), "state_bytes": source.pick((0, 1, 40))}


def limits(source: Source, *, chunked: bool) -> Wire:
    """Draw the limits of a step; if prompts are not cut, the budget mostly holds the longest."""
    small = source.pick((3, 5, 8, 17, 32) if source.pressed else (1, 2, 3, 4, 5, 8, 17, 32, 64))
    large = LONGEST + source.whole(5, 40) if source.chance(0.7) else source.whole(8, LONGEST)
    threshold = source.pick((0, 0, 0, 1, 3, 10))
    return {
        "max_num_batched_tokens": small if chunked else large,
        "max_num_seqs": source.pick((2, 3, 4, 16) if source.pressed else (1, 2, 3, 4, 16)),
        "long_prefill_token_threshold": threshold,
        "threshold_when_alone": source.chance(0.5),
    }


def flags(source: Source) -> Wire:
    """Draw the rules that any order may have."""
    return {
        "victim": source.pick(preemption.VICTIMS),
        "watermark_blocks": source.pick((0, 0, 0, 1, 3)),
        "watermark_when_idle": source.chance(0.3),
        "spare_block": source.chance(0.25),
        "refund": source.chance(0.6),
        "stop_at_own_preemption": source.chance(0.3),
    }


def ranked_scheduler(source: Source) -> Wire:
    several = stages.ranked(source)
    selects = stages.has(several, "select")
    cached = not selects and source.chance(0.4)
    preempts = preemption.preemption(source, swaps=source.chance(0.5))
    _reserve_within(several, preempts)
    most = limits(source, chunked=_cuts(several))
    return {
        **most,
        **step_limits.varying(source, most, chunked=_cuts(several)),
        **({} if selects else step_limits.joining(source, most)),
        **flags(source),
        "stages": several,
        "exclusive_prefill": False,
        "order": _order(source, selects=selects, cached=cached),
        "admission": {"kind": "wait"} if selects else ranking.admission(source),
        "allocation": source.pick(("chunk", "chunk_if_all_fits", "sequence")),
        "decodes_first": False,
        "preemption": preempts,
        "requeue_late": False,
        "prefix_cache": _cache(source) if cached else None,
        "schedule_ahead": False,
    }


def _order(source: Source, *, selects: bool, cached: bool) -> Wire:
    order = ranking.ranked(source, cached=cached)
    # A stage that selects requests by rank has no accumulators.
    return accumulators.accumulated(source, order) if not selects and source.chance(0.15) else order


def unranked_scheduler(source: Source) -> Wire:
    reserves = source.chance(0.15)
    swaps = not reserves and source.chance(0.35)
    several = stages.prefills_first(source) if reserves else stages.unranked(source, swaps=swaps)
    sits_out = several[-1].get("sits_out", False)
    exclusive = not sits_out and stages.may_exclude(several) and source.chance(0.85)
    layered = stages.has(several, "layered")
    apart = stages.has(several, "prefills")
    if layered or (apart and not exclusive and not sits_out):
        allocation = "sequence"
    elif apart:
        allocation = source.pick(("sequence", "chunk_if_all_fits", "chunk_if_all_fits"))
    else:
        allocation = source.pick(("chunk", "chunk", "chunk_if_all_fits", "sequence"))
    if not (swaps or reserves or layered) and source.chance(0.15):
        allocation = "chunk_if_output_fits"
    cached = source.chance(0.65)
    cache = _cache(source, tree=reserves) if cached else None
    most = limits(source, chunked=_cuts(several))
    ahead = source.chance(0.6 if reserves else 0.35)
    reserve = output_reserve(source) if reserves and source.chance(0.85) else None
    drops = reserve and ahead and (exclusive or sits_out) and (cache is None or cache.get("tree"))
    drops = source.chance(0.8) if drops else source.chance(0.002)
    return {
        **most,
        **step_limits.varying(source, most, chunked=_cuts(several)),
        **step_limits.joining(source, most),
        **flags(source),
        **({"spare_block": False} if drops and source.chance(0.97) else {}),
        "stages": several,
        "exclusive_prefill": exclusive,
        "order": {"kind": "shared_prefix"}
        if cache is not None and cache.get("tree") and source.chance(0.25)
        else ranking.unranked(source, cached=cached),
        "admission": {"kind": "wait"},
        "allocation": allocation,
        "decodes_first": source.chance(0.01 if cache is not None and cache.get("tree") else 0.3),
        "preemption": preemption.preemption(source, swaps=swaps),
        "requeue_late": source.chance(0.4),
        "prefix_cache": cache,
        "schedule_ahead": ahead,
        "drop_unseen": drops,
        "unseen_ends": source.chance(0.4) if drops else source.chance(0.002),
        **({"receive_interval": source.pick((2, 3, 5, 9))} if source.chance(0.25) else {}),
        "requeue_last": source.chance(0.8 if reserves else 0.1),
        "output_reserve": reserve,
    }


def output_reserve(source: Source) -> Wire:
    """Draw what an admission leaves for outputs to come."""
    first = source.pick((0, 1, 250_000, 700_000, 1_000_000))
    return {
        "first": first,
        "least": source.pick((0, first // 7, first)),
        "steps": source.pick((1, 3, 7, 600)),
        "after": source.pick((0, 1, 20)),
        "clip": source.pick((1, 3, 8, 4096)),
    }


def malform(source: Source, scheduler: Wire) -> None:
    """Change a scheduler, so that its parts may contradict each other."""
    match source.pick(("stages", "swap", "cache", "exclusive", "flags", "allocation", "order")):
        case "stages":
            scheduler["stages"] = stages.malformed(source)
            _reserve_within(scheduler["stages"], scheduler["preemption"])
        case "swap":
            scheduler["preemption"] = preemption.preemption(source, swaps=True)
            _reserve_within(scheduler["stages"], scheduler["preemption"])
        case "cache":
            scheduler["prefix_cache"] = _cache(source)
        case "exclusive":
            scheduler["exclusive_prefill"] = True
        case "flags":
            for name in ("decodes_first", "requeue_late", "schedule_ahead"):
                scheduler[name] = source.chance(0.5)
            if source.chance(0.5):
                scheduler["receive_interval"] = 4
        case "allocation":
            scheduler["allocation"] = source.pick(
                ("chunk", "chunk_if_all_fits", "chunk_if_output_fits", "sequence")
            )
        case _:
            scheduler["order"] = ranking.ranked(source)


def _reserve_within(several: list[Wire], preempts: Wire) -> None:
    """Lower a selection's reserve to the swap space: Python has it as a share of that."""
    for stage in several:
        if stage["kind"] == "select":
            stage["swap_reserve_blocks"] = min(stage["swap_reserve_blocks"], preempts.get("blocks", 0))


def _cuts(several: list[Wire]) -> bool:
    return all(stage.get("chunked", True) for stage in several)


def _cache(source: Source, *, tree: bool = False) -> Wire:
    if tree and source.chance(0.6):
        return radix_tree(source)
    if source.chance(0.5):
        return {"unknown_first": source.chance(0.5)}
    return {"unknown_first": True, "evict": _eviction(source)}


def radix_tree(source: Source) -> Wire:
    """Draw a prefix cache that is a radix tree."""
    rules = {
        "passes": source.pick((0, 1, 2, 5, 32)),
        "most": source.pick((0, 1, 3, 128)),
        "least_load": source.pick((0, 0, 0, 1, 4, 10)),
    }
    return {"unknown_first": True, "tree": rules}


def _eviction(source: Source) -> Wire:
    """Draw the order in which cached blocks are evicted."""
    order = expressions.number(source, fields.STEADY_OF_BLOCK)
    if source.chance(0.4):
        return {"order": order, "groups": None}
    by = expressions.number(source, fields.STEADY_OF_BLOCK)
    return {"order": order, "groups": {"by": by, "first": expressions.number(source, fields.OF_BLOCK)}}
