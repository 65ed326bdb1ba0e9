"""Random compositions of stages and rules in the engine's format, over all that it accepts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from hypothesis import strategies as st

from differential import wire
from differential.networks import networks
from differential.policies import COPIES, HANDOVERS, WireCase, arrival_rules, instances, later_rules, requests
from differential.strategies import BUDGETS, CAPACITY, FAMILIES
from differential.wire import Wire
from paceline.testing.reference.policy_sim import TraceRequest

FLAG = st.booleans()
SELDOM = st.sampled_from([False, False, True])


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed(WireCase):
    """A case, and the block size of the prefixes that its requests name."""

    prefix_block_tokens: int | None = None


def admit(draw: st.DrawFn, *, chunked: bool, ranked: bool, swaps: bool) -> Wire:
    """Draw an admission stage."""
    gather = None
    if not ranked and draw(st.sampled_from([0, 0, 0, 1])):
        gather = {"size": draw(st.integers(1, 4)), "wait": draw(st.sampled_from([0, 5, 40]))}
    return {
        "kind": "admit",
        "chunked": chunked,
        "unless_preempted": draw(FLAG),
        "unless_swapped": not ranked and swaps and draw(FLAG),
        "count_decodes": draw(st.sampled_from([True, True, False])),
        "gather": gather,
    }


def layered(draw: st.DrawFn) -> Wire:
    """Draw a stage that runs prefills one group of layers at a time."""
    layers = draw(st.integers(1, 6))
    limits = draw(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 6)), max_size=2))
    groups = {
        "limits": sorted(limits),
        "tokens_per_group": draw(st.sampled_from([0, 4, 10])),
        "most": draw(st.integers(1, layers)),
    }
    return {"kind": "layered", "layers": layers, "groups": groups}


def decodes(draw: st.DrawFn) -> Wire:
    """Draw a stage that schedules decodes."""
    return {
        "kind": "decodes",
        "charged": draw(FLAG),
        "seated": draw(SELDOM),
        "over_prefills": draw(st.sampled_from([True, True, False])),
    }


@cache
@st.composite
def unranked(draw: st.DrawFn, *, moves_layers: bool | None = None) -> Wire:
    """Draw an instance whose queue is in an order of arrival, priority or cached prefix."""
    in_layers = draw(st.sampled_from([False, False, False, True])) if moves_layers is None else moves_layers
    swaps = not in_layers and draw(FLAG)
    caches = not in_layers and not swaps and draw(FLAG)
    chunked = draw(FLAG)
    split = in_layers or draw(FLAG)
    prefills = split and not in_layers and (chunked or draw(FLAG))
    exclusive = split and not in_layers and draw(FLAG)
    stages = [{"kind": "prefills"}] if prefills else []
    stages += [layered(draw) if in_layers else admit(draw, chunked=chunked, ranked=False, swaps=swaps)]
    if swaps:
        stages.append({"kind": "swap_in", "unless_preempted": draw(FLAG)})
    stages = draw(st.permutations(stages))
    if exclusive:  # only then is it known whether the step has prefills
        stages.sort(key=lambda stage: stage["kind"] == "swap_in")
    run = decodes(draw) if split else {"kind": "running"}
    first = 1 + max(i for i, one in enumerate(stages) if one["kind"] != "swap_in") if exclusive else 0
    stages.insert(draw(st.integers(first, len(stages))), run)
    allocations = ["chunk", "chunk_if_all_fits", "sequence"]
    if in_layers or prefills:
        allocations = ["sequence"]
        if exclusive:
            allocations.append("chunk_if_all_fits")
    if caches:
        allocations = [one for one in allocations if one != "sequence"]
        if not allocations:
            caches, allocations = False, ["sequence"]
    by = ["arrival", "arrival", "priority"] + (["longest_prefix"] if caches else [])
    order: Wire = {"kind": draw(st.sampled_from(by))}
    if order["kind"] == "longest_prefix":
        order["most"] = draw(st.sampled_from([2, 128]))
    block_tokens = draw(st.sampled_from([1, 1, 2, 4, 16]))
    one = wire.instance(
        max(1, draw(CAPACITY) // block_tokens),
        block_tokens=block_tokens,
        max_model_len=draw(st.sampled_from([None, None, None, 60])),
        kv_bytes=draw(st.sampled_from([1, 1, 3])),
        state_blocks=0 if caches else draw(st.sampled_from([0, 0, 0, 1, 3])),
        state_bytes=0 if caches else draw(st.sampled_from([0, 0, 40])),
        step=draw(st.integers(1, 20)),
        token=draw(st.integers(0, 3)),
        kv_token=draw(st.sampled_from([0, 0, 1, 2])),
        budget=draw(BUDGETS) if chunked or in_layers else draw(st.sampled_from([20, 40, 70, 110])),
        seats=draw(st.sampled_from([1, 2, 4, 16, 16])),
        allocation=draw(st.sampled_from(allocations)),
    )
    swap = wire.swap(
        draw(st.sampled_from([0, 5, 20, 1000, 1000])),
        out=draw(COPIES),
        back=draw(COPIES),
        overlapped=draw(FLAG),
    )
    one["scheduler"] |= {
        "stages": stages,
        "order": order,
        "exclusive_prefill": exclusive,
        "victim": draw(st.sampled_from(["latest", "worst", "fewest_generated"])),
        "decodes_first": draw(SELDOM),
        "preemption": swap if swaps else wire.RECOMPUTE,
        "requeue_late": draw(SELDOM),
        "prefix_cache": {"unknown_first": draw(FLAG)} if caches else None,
        "schedule_ahead": draw(SELDOM),
        "receive_interval": draw(st.sampled_from([1, 1, 1, 2, 5])),
        "requeue_last": draw(SELDOM),
        **shared_rules(draw, one["blocks"]),
    }
    return one


def shared_rules(draw: st.DrawFn, blocks: int) -> Wire:
    """Draw the rules that ranked and unranked orders have in common."""
    return {
        "long_prefill_token_threshold": draw(st.sampled_from([0, 0, 1, 3, 10])),
        "threshold_when_alone": draw(FLAG),
        "watermark_blocks": min(draw(st.sampled_from([0, 0, 1, 3])), blocks - 1),
        "watermark_when_idle": draw(FLAG),
        "spare_block": draw(SELDOM),
        "refund": draw(FLAG),
        "stop_at_own_preemption": draw(SELDOM),
    }


@cache
@st.composite
def ranked(draw: st.DrawFn) -> Wire:
    """Draw an instance whose requests are ranked."""
    one = draw(instances())
    scheduler = dict(one["scheduler"])
    caches = scheduler["allocation"] != "sequence" and draw(FLAG)
    (chunked,) = (stage["chunked"] for stage in scheduler["stages"] if stage["kind"] == "admit")
    stages = [{"kind": "running"}, admit(draw, chunked=chunked, ranked=True, swaps=False)]
    scheduler |= {
        "stages": stages if draw(st.sampled_from([True, True, False])) else stages[::-1],
        "prefix_cache": {"unknown_first": draw(FLAG)} if caches else None,
        **shared_rules(draw, one["blocks"]),
    }
    if caches:
        scheduler["preemption"] = wire.RECOMPUTE
    return {**one, "scheduler": scheduler}


@cache
@st.composite
def sharing(draw: st.DrawFn, least: int, most: int) -> tuple[list[TraceRequest], int]:
    """Draw requests with shared prompt blocks, by ids or as turns of sessions; and the ids' block size."""
    plain = draw(requests(least=least, most=most))
    size = draw(st.sampled_from([1, 2, 4]))
    if draw(FLAG):
        families = draw(FAMILIES)
        chosen: Any = st.tuples(st.sampled_from(families), st.integers(0, 12))
        found = []
        for one in plain:
            ids, length = draw(chosen)
            found.append(replace(one, prefix=tuple(ids[: min(length, one.prompt_tokens // size)])))
        return found, size
    sessions = st.none() | st.integers(0, min(2, len(plain) - 1))
    return [replace(one, session=draw(sessions)) for one in plain], size


@cache
@st.composite
def compositions(draw: st.DrawFn, *, kind: str = "any", moves: bool = False) -> Composed:
    """Draw one or two instances; ``kind`` is ``ranked``, ``unranked``, ``layered`` or ``any``."""
    drawn = {
        "ranked": ranked(),
        "unranked": unranked(moves_layers=False),
        "layered": unranked(moves_layers=True),
        "any": st.one_of(ranked(), unranked()),
    }[kind]
    count = draw(st.sampled_from([1, 1, 2])) + moves
    fleet = [draw(drawn) for _ in range(count)]
    workload, size = draw(sharing(least=draw(st.sampled_from([1, 6 * count])), most=8 * count))
    caches = any(one["scheduler"]["prefix_cache"] for one in fleet)
    for one in fleet:
        if caches and any(request.prefix for request in workload):
            # One of the block sizes divides the other.
            size = (
                one["block_tokens"]
                if max(size, one["block_tokens"]) % min(size, one["block_tokens"])
                else size
            )
    config = wire.cluster(
        *fleet,
        on_arrival=draw(arrival_rules()),
        on_prefilled=draw(later_rules()) if moves else None,
        on_answering=draw(later_rules()) if moves else None,
        handover=draw(st.none() | HANDOVERS) if moves else None,
        links=draw(st.none() | networks(count)) if moves else None,
    )
    return Composed(requests=workload, config=config, prefix_block_tokens=size)
