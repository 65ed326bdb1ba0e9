"""The stages that form a step, in all valid orders; now and then in others."""

from __future__ import annotations

from collections.abc import Callable

from search.draw.expressions import Wire
from search.draw.preemption import preemption
from search.draw.source import Source

RUNNING: Wire = {"kind": "running"}
PREFILLS: Wire = {"kind": "prefills"}


def decodes(source: Source) -> Wire:
    return {
        "kind": "decodes",
        "charged": source.chance(0.6),
        "seated": source.chance(0.5),
        "over_prefills": source.chance(0.5),
        "sits_out": False,
    }


def swap_in(source: Source) -> Wire:
    return {"kind": "swap_in", "unless_preempted": source.chance(0.5)}


def admit(source: Source, *, chunked: bool | None = None, gathers: bool = True) -> Wire:
    gather = {"size": source.whole(1, 4), "wait": source.ticks(0, 60)}
    return {
        "kind": "admit",
        "chunked": source.chance(0.6) if chunked is None else chunked,
        "unless_preempted": source.chance(0.35),
        "unless_swapped": gathers and source.chance(0.5),
        "count_decodes": source.chance(0.5),
        "gather": gather if gathers and source.chance(0.25) else None,
    }


def decide_ahead(source: Source, scheduler: Wire) -> None:
    """Give a scheduler the stages and rules of vLLM V1: no others decide steps ahead beside drafts."""
    several = scheduler["stages"]
    chunked = all(stage.get("chunked", True) for stage in several)
    admits = admit(source, chunked=chunked, gathers=False)
    scheduler["stages"] = [RUNNING, {**admits, "unless_preempted": True, "count_decodes": True}]
    scheduler["preemption"] = {"kind": "recompute"}
    for rule in ("exclusive_prefill", "decodes_first", "requeue_late"):
        scheduler[rule] = False


def hold_prompts(source: Source, instance: Wire) -> None:
    """Have prompts wait for others beside decodes, with the stages and rules that this needs."""
    instance.pop("speculation", None)
    scheduler = instance["scheduler"]
    whole = admit(source, chunked=False, gathers=False)
    scheduler |= {
        "stages": [RUNNING, {**whole, "count_decodes": True}],
        "exclusive_prefill": False,
        "order": {"kind": "arrival"},
        "allocation": source.pick(("chunk", "chunk_if_all_fits", "chunk_if_output_fits", "sequence")),
        "preemption": {"kind": "recompute"},
        "output_reserve": None,
        "prefix_cache": None,
        "joining": {},
        "varying": {},
        "drop_unseen": False,
        "unseen_ends": False,
        "prompt_batch": {"tokens": source.whole(1, 60), "steps": source.pick((1, 2, 3, 5, 9))},
    }


def swap_beside_reserve(source: Source, scheduler: Wire) -> None:
    """Have a scheduler with room for outputs to come swap requests out, and in as others are accepted."""
    *before, last = scheduler["stages"]
    if before[0]["kind"] != "swap_in" and scheduler["exclusive_prefill"]:
        scheduler |= {"spare_block": False, "stop_at_own_preemption": False}
        waits = {"unless_swapped": False}
        before = [one | waits if one["kind"] == "admit" else one for one in before]
        scheduler["stages"] = [swap_in(source), *before, {**last, "over_prefills": False}]
        scheduler["preemption"] = preemption(source, swaps=True)
        if "tree" not in (scheduler["prefix_cache"] or {}):
            scheduler |= {"prefix_cache": None, "order": {"kind": "arrival"}}


def runs_past_ends(scheduler: Wire) -> bool:
    """Whether steps may compute tokens of requests that have ended."""
    other = scheduler["decodes_first"] or scheduler["spare_block"] or scheduler["stop_at_own_preemption"]
    return bool(scheduler["exclusive_prefill"] and not other)


def layered(source: Source) -> Wire:
    layers = source.pick((1, 2, 4, 12, 24))
    most = source.whole(1, layers)
    bounds = sorted({source.whole(1, 40) for _ in range(source.whole(0, 2))})
    return {
        "kind": "layered",
        "layers": layers,
        "groups": {
            "limits": [[tokens, source.whole(1, most)] for tokens in bounds],
            "tokens_per_group": source.pick((0, 1, 4, 16)),
            "most": most,
        },
    }


def select(source: Source) -> Wire:
    return {
        "kind": "select",
        "chunked": source.chance(0.7),
        "charged": source.chance(0.7),
        "reserve_blocks": source.pick((0, 0, 1, 3)),
        "swap_reserve_blocks": source.pick((0, 0, 2, 9)),
    }


def ranked(source: Source) -> list[Wire]:
    """Draw the stages of a ranked queue."""
    if source.chance(0.35):
        return [select(source)]
    both = [RUNNING, admit(source, gathers=False)]
    return both if source.chance(0.8) else both[::-1]


def unranked(source: Source, *, swaps: bool) -> list[Wire]:
    """Draw the stages of any other queue."""
    kind = source.pick(
        (
            *("running", "running", "running", "apart", "apart", "decodes", "layered", "layered"),
            "last",
            "last",
        )
    )
    if kind == "layered" and not swaps:
        return source.shuffled([decodes(source), layered(source)])
    if kind == "running" or kind == "layered":
        parts = [RUNNING, admit(source)]
    elif kind == "apart":
        parts = [decodes(source), PREFILLS, admit(source)]
    elif kind == "last":
        return _decodes_last(source, swaps=swaps)
    else:
        parts = [decodes(source), admit(source, chunked=False)]
    if swaps:
        parts.append(swap_in(source))
    if source.chance(0.4):
        # The order of real engines: running requests, swapped-out requests, waiting requests.
        return sorted(parts, key=lambda stage: stage["kind"] in ("swap_in", "admit"))
    return source.shuffled(parts)


def _decodes_last(source: Source, *, swaps: bool) -> list[Wire]:
    """Draw stages that run decodes after all prefills, so that prefills may exclude them."""
    # Prompts in parts are swapped out where decodes preempt them, and swapped in beside other decodes.
    chunked = source.chance(0.8 if swaps else 0.5)
    before = [admit(source, chunked=chunked)]
    if chunked or source.chance(0.3):
        before.append(PREFILLS)
    last = decodes(source)
    if swaps:
        last["over_prefills"] = source.chance(0.8)
    return [*source.shuffled(before), last, *([swap_in(source)] if swaps else [])]


def prefills_first(source: Source) -> list[Wire]:
    """Draw the stages beside which admissions may leave room for outputs: decodes after all prefills."""
    last = decodes(source)
    if source.chance(0.4):
        last |= {"sits_out": True, "charged": False}
    if source.chance(0.25):
        return [admit(source, chunked=False), last]
    return [PREFILLS, admit(source, chunked=True), last]


def malformed(source: Source) -> list[Wire]:
    """Draw stages in any order."""
    makers: tuple[Callable[[], Wire], ...] = (
        lambda: RUNNING,
        lambda: PREFILLS,
        lambda: decodes(source),
        lambda: swap_in(source),
        lambda: admit(source),
        lambda: layered(source),
        lambda: select(source),
    )
    return source.some(0, 4, lambda: source.pick(makers)())


def has(stages: list[Wire], *kinds: str) -> bool:
    return any(stage["kind"] in kinds for stage in stages)


def may_exclude(stages: list[Wire]) -> bool:
    """Whether prefills can exclude decodes: decodes run after all stages that run or swap in prefills."""
    kinds = [stage["kind"] for stage in stages]
    if "decodes" not in kinds or "admit" not in kinds:
        return False
    after = kinds[kinds.index("decodes") :]
    return not {"admit", "prefills"} & set(after) and ("swap_in" not in kinds or "swap_in" in after)
