"""The mechanisms that had an effect in a replay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from search.mechanisms.drawn import FLAGS
from search.oracle.replayed import FINISHED, GAVE_UP, HELD, NOT_ARRIVED, REJECTED, RUNNING, WAITING, Replayed

Wire = dict[str, Any]
REASONS = {
    1: "max_model_len",
    2: "blocks",
    3: "max_num_batched_tokens",
    5: "model",
    6: "timeout",
    7: "client",
}


def exercised(replayed: Replayed) -> set[str]:
    """Return the mechanisms that had an effect in a replay."""
    found: set[str] = set()
    statuses = set(replayed.column("status"))
    for status, name in (
        (FINISHED, "finished"),
        (REJECTED, "rejected"),
        (RUNNING, "cut off running"),
        (WAITING, "cut off waiting"),
        (HELD, "cut off held"),
        (GAVE_UP, "gave up"),
    ):
        if status in statuses:
            found.add(name)
    if any(replayed.column("reason")):
        found |= {f"rejected: {REASONS[reason]}" for reason in set(replayed.column("reason")) - {0}}
    found |= set(_of_clients(replayed))
    if any(replayed.column("migrations")):
        found.add("moved")
    if any(replayed.column("held")):
        found.add("held")
    for name in ("handover_wait", "received_wait", "first_decode"):
        if any(replayed.column(name)):
            found.add(name.removesuffix("_ticks"))
    for index, used in enumerate(replayed.stats["instances"]):
        log = replayed.decisions[index]
        scheduler = replayed.case.config["instances"][index]["scheduler"]
        found |= set(_of_usage(used, scheduler))
        found |= set(_of_log(log, scheduler, used))
    return found


def _of_clients(replayed: Replayed) -> Iterator[str]:
    """Yield what clients did that wait for answers."""
    case, sent, status = replayed.case, replayed.column("arrival"), replayed.column("status")
    if not sent:
        return
    came = [row for row, one in enumerate(status) if one != NOT_ARRIVED]
    if len(came) < len(status) and case.config["until"] is None:
        yield "clients: never sent, for want of an answer"
    if any(sent[row] != case.requests[row]["arrival"] for row in came):
        yield "clients: sent at another moment"
    if sorted(came, key=lambda row: sent[row]) != came:
        yield "clients: sent in another order"


def _of_usage(used: Wire, scheduler: Wire) -> Iterator[str]:
    if used["preemptions"]:
        yield "preempted"
        yield f"preempted: victim {scheduler['victim']}"
        yield f"preempted: allocation {scheduler['allocation']}"
        yield f"preempted: {scheduler['preemption']['kind']}"
        for name in FLAGS:
            if scheduler[name]:
                yield f"preempted with {name}"
        for stage in scheduler["stages"]:
            yield f"preempted with stage {stage['kind']}"
            for name, value in stage.items():
                if isinstance(value, bool) and value:
                    yield f"preempted with {stage['kind']}: {name}"
        yield f"preempted: order {scheduler['order']['kind']}"
        if scheduler["prefix_cache"]:
            yield "preempted with prefix cache"
            if scheduler["prefix_cache"].get("tree"):
                yield "preempted with prefix cache: tree"
    if used["swapped_out_blocks"]:
        yield "swapped out"
    if used["swapped_in_blocks"]:
        yield "swapped in"
    if used["swap_overflows"]:
        yield "swap overflowed"
    if used["prefix_hits"]:
        yield "prefix hit"
        yield f"prefix hit: order {scheduler['order']['kind']}"
        if scheduler["admission"]["kind"] == "displace":
            yield "prefix hit: with displacement"
    if used["evictions"]:
        yield "evicted"
    if used["landed"]:
        yield "landed"
    if used["expired_offers"]:
        yield "offer expired"
    if drafts := used.get("drafts"):
        for name, count in drafts.items():
            if count:
                yield f"drafts: {name}"
        if used["preemptions"]:
            yield "drafts: preempted"
        if used["prefix_hits"]:
            yield "drafts: prefix hit"
        if used["landed"]:
            yield "drafts: landed"
        if used["swapped_in_blocks"]:
            yield "drafts: swapped in"
    if tier := used.get("tier"):
        for name, count in tier.items():
            if count and name not in ("capacity", "peak_chunks"):
                yield f"tier: {name}"
                if (scheduler["prefix_cache"] or {}).get("tree"):
                    yield f"tier: of a tree: {name}"
        if used["preemptions"] and tier["loaded_blocks"]:
            yield "tier: preempted"
    for name, count in used.get("store", {}).items():
        if count and name != "store":
            yield f"store: {name}"
    if used["extrapolated"]:
        yield "extrapolated"


def _of_log(log: list[Wire], scheduler: Wire, used: Wire) -> Iterator[str]:
    before: set[int] = set()
    displaces = scheduler["admission"]["kind"] == "displace"
    seats, budget = scheduler["max_num_seqs"], scheduler["max_num_batched_tokens"]
    for step in log:
        parts = {entry[3] for entry in step["scheduled"]}
        for part in parts:
            yield f"step: {part}"
        if "decode" in parts and parts & {"chunk", "admitted"}:
            yield "step: mixed"
        if step["group"] and step["group"][1] > 1:
            yield "layered: more than one group"
        if step["preempted"]:
            if len(step["preempted"]) > 1:
                yield "step: several preempted"
            if "admitted" in parts:
                yield "step: preempts and admits"
                if displaces:
                    yield "displaced"
                    yield f"displaced: {scheduler['preemption']['kind']}"
                    if used["prefix_hits"]:
                        yield "displaced: with prefix hits"
            if not before & set(step["preempted"]):
                yield "step: preempted what did not run before"
        if sum(entry[1] for entry in step["scheduled"]) >= budget:
            yield "step: budget used up"
        if len(step["scheduled"]) >= seats > 1:
            yield "step: seats used up"
        if step["free_blocks"] == 0:
            yield "step: no block free"
        before = {entry[0] for entry in step["scheduled"]}
    if len(log) > 1:
        yield "steps: several"
    if used["steps"] > 50:
        yield "steps: more than 50"
