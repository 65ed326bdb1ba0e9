"""A `Scheduler` of the public API from the one that the engine reads."""

from __future__ import annotations

from typing import Any

from paceline.policy import (
    Class,
    Displace,
    Eviction,
    Levels,
    Loras,
    OutputReserve,
    PrefixCache,
    PromptBatch,
    Quantum,
    RadixTree,
    Refresh,
    Scheduler,
    inst,
    maximum,
    minimum,
    where,
)
from paceline.policy.expressions.tree import Const
from paceline.policy.stages import (
    Admit,
    Decodes,
    Gather,
    Groups,
    Layered,
    Prefills,
    Recompute,
    Running,
    Select,
    Stage,
    Swap,
    SwapIn,
)
from search.spelled.accumulators import Accumulators
from search.spelled.expressions import CLASSES, condition, number

Wire = dict[str, Any]
TICKS_PER_S = 1e9
"""The unit of spans, so that the API accepts a span of a few ticks."""
LONGEST_SORTED = 128
SHARED = 32

ALIKE = (
    *("max_num_seqs", "threshold_when_alone"),
    *("exclusive_prefill", "allocation", "watermark_when_idle", "spare_block", "decodes_first"),
    *("refund", "stop_at_own_preemption", "requeue_late", "schedule_ahead"),
)


def spell(wire: Wire, blocks: int) -> Scheduler:
    """Return the scheduler.

    Raises
    ------
    PolicyError
        If the public API refuses it.
    """
    return Scheduler(
        **{name: wire[name] for name in ALIKE},
        **_limits(wire),
        receive_interval=wire.get("receive_interval", 1),
        requeue_last=wire.get("requeue_last", False),
        drop_unseen=wire.get("drop_unseen", False),
        unseen_ends=wire.get("unseen_ends", False),
        whole_block_chunks=wire.get("whole_block_chunks", False),
        output_reserve=_output_reserve(wire.get("output_reserve")),
        prompt_batch=PromptBatch(**wire["prompt_batch"]) if wire.get("prompt_batch") else None,
        stages=tuple(_stage(stage, wire["preemption"].get("blocks", 0)) for stage in wire["stages"]),
        **_order(wire["order"]),
        # Ranks choose the victim: with them the public API takes no other choice.
        victim="latest" if wire["order"]["kind"] == "ranked" else wire["victim"],
        admission=_admission(wire["admission"]),
        watermark=(wire["watermark_blocks"] + 0.5) / blocks if wire["watermark_blocks"] else 0.0,
        preemption=_preemption(wire["preemption"]),
        prefix_cache=_cache(wire["prefix_cache"]),
    )


def _cache(wire: Wire | None) -> PrefixCache | None:
    if wire is None:
        return None
    evict = wire.get("evict")
    if wire.get("tree"):
        return PrefixCache(unknown_first=wire["unknown_first"], tree=RadixTree(**wire["tree"]))
    if evict is None:
        return PrefixCache(unknown_first=wire["unknown_first"])
    groups = evict["groups"] or {}
    parts = {"order": evict["order"], "groups": groups.get("by"), "first": groups.get("first")}
    spelled = {name: number(part) for name, part in parts.items() if part is not None}
    return PrefixCache(unknown_first=wire["unknown_first"], evict=Eviction(**spelled))


def _output_reserve(wire: Wire | None) -> OutputReserve | None:
    if wire is None:
        return None
    return OutputReserve(
        share=wire["first"] / 1e6,
        least=wire["least"] / 1e6,
        steps=wire["steps"],
        ahead=wire["after"],
        clip=wire["clip"],
    )


def _limits(wire: Wire) -> dict[str, Any]:
    """Return the limits of a step, and of the prompts that join others."""
    varying, joining = wire.get("varying", {}), wire.get("joining", {})
    tokens, chunk = wire["max_num_batched_tokens"], wire["long_prefill_token_threshold"]
    if varying.get("tokens"):
        # Python derives the bounds from the expression, so that it must have them.
        within = minimum(maximum(number(varying["tokens"]["of"]), varying["tokens"]["least"]), tokens)
        tokens = where(inst.running < 0, tokens, within)
    if varying.get("chunk"):
        chunk = number(varying["chunk"])
    bucket = joining.get("bucket")
    return {
        "max_num_batched_tokens": tokens,
        "long_prefill_token_threshold": chunk,
        "max_num_partial_prefills": joining.get("prefills", 0),
        "max_long_partial_prefills": joining.get("long_prefills", 0),
        "bucket": None if bucket is None else number(bucket),
        "loras": _loras(joining),
    }


def _loras(joining: Wire) -> Loras | None:
    if not joining.get("adapters"):
        return None
    return Loras(joining["adapters"], load_s=joining["adapter_load"] / TICKS_PER_S)


def sayable(wire: Wire) -> bool:
    """Whether the public API can express it: the longest queue that is sorted is a constant there."""
    order = wire["order"]
    both = bool(order.get("levels") and order.get("quantum"))
    sorts = order.get("most", LONGEST_SORTED) == LONGEST_SORTED and order.get("shares", SHARED) == SHARED
    return bool(sorts) and not both


def _stage(wire: Wire, cpu_blocks: int) -> Stage:
    given = {name: value for name, value in wire.items() if name != "kind"}
    match wire["kind"]:
        case "running":
            return Running()
        case "prefills":
            return Prefills()
        case "decodes":
            return Decodes(**given)
        case "swap_in":
            return SwapIn(**given)
        case "admit":
            gather = given.pop("gather")
            if gather is not None:
                gather = Gather(size=gather["size"], wait_s=gather["wait"] / TICKS_PER_S)
            return Admit(**given, gather=gather)
        case "select":
            reserved = given.pop("swap_reserve_blocks")
            share = min((reserved - 0.5) / cpu_blocks, 1.0) if reserved and cpu_blocks else 0.0
            return Select(**given, swap_reserve=share)
    return Layered(layers=given["layers"], groups=Groups(**given["groups"]))


def _preemption(wire: Wire) -> Recompute | Swap:
    if wire["kind"] == "recompute":
        return Recompute()
    return Swap(
        cpu_blocks=wire["blocks"],
        out_s=wire["out"] / TICKS_PER_S,
        in_s=wire["back"] / TICKS_PER_S,
        overlapped=wire["overlapped"],
    )


def _admission(wire: Wire) -> Any:
    if wire["kind"] == "wait":
        return "wait"
    when = None if wire["when"] is None else condition(wire["when"])
    return Displace(when=when, most=wire["most"] or None)


def _order(wire: Wire) -> dict[str, Any]:
    if wire["kind"] != "ranked":
        return {"order": wire["kind"]}
    refresh, quantum = wire["refresh"], wire["quantum"]
    rarely = None
    if refresh["steps"] or refresh["ticks"]:
        seconds = refresh["ticks"] / TICKS_PER_S
        rarely = Refresh(steps=refresh["steps"] or None, seconds=seconds or None)
    accumulators = Accumulators(wire)
    classes = [
        Class(
            name,
            when=None if each["when"] is None else condition(each["when"]),
            hold=each["hold"],
            hold_steps=each.get("hold_steps", 0),
            # The order of arrival decides last, so that any constant expresses it.
            order=tuple(map(accumulators.key, each["keys"])) or (Const(0),),
        )
        for name, each in zip(CLASSES, wire["classes"], strict=False)
    ]
    common = {"classes": classes, "refresh": rarely, "admits": accumulators.admits(wire.get("admits"))}
    levels = wire.get("levels")
    if levels is not None:
        order = Levels(
            levels["first"] / TICKS_PER_S,
            entry=number(levels["entry"]),
            promote=None if levels["promote"] is None else condition(levels["promote"]),
            every=levels["every"],
        )
        return {"order": order, **common}
    # Each class has its own order, so that the scheduler's only defines the quantum.
    return {"order": Quantum(quantum) if quantum else "arrival", **common}
