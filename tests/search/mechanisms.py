"""What a case says, and what of it was seen to happen: names that are counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from search.case import Case
from search.oracle.replayed import FINISHED, REJECTED, RUNNING, WAITING, Replayed

Wire = dict[str, Any]
FLAGS = (
    *("threshold_when_alone", "exclusive_prefill", "watermark_when_idle", "spare_block", "decodes_first"),
    *("refund", "stop_at_own_preemption", "requeue_late", "schedule_ahead"),
)


def drawn(case: Case) -> set[str]:
    """Return the mechanisms that a case has."""
    found: set[str] = set()
    config = case.config
    for instance in config["instances"]:
        found |= set(_of_instance(instance))
    routing = config["routing"]
    for name in ("on_arrival", "on_prefilled", "on_answering"):
        found |= set(_of_rule(name, routing[name]))
    for monitor in routing["every"]:
        found.add("monitor")
        for action in monitor["actions"]:
            live = action["live"]
            found.add("migrate: live" if live and live["stages"] else "migrate: at once")
            for part in ("source", "target", "choose"):
                found |= set(_fields(f"monitor {part}", action[part]))
            found |= set(_fields("monitor when", action["when"]))
    for name in ("links", "pace", "lockstep"):
        if config[name] is not None:
            found.add(name)
    if config["until"] is not None:
        found.add("until")
    if any(config["roles"]):
        found.add("roles")
    found.add(f"instances: {len(config['instances'])}")
    found |= set(_of_requests(case))
    return found


def _of_instance(instance: Wire) -> Iterator[str]:
    scheduler = instance["scheduler"]
    kinds = [stage["kind"] for stage in scheduler["stages"]]
    yield "stages: " + ", ".join(kinds)
    for stage in scheduler["stages"]:
        yield f"stage: {stage['kind']}"
        for name, value in stage.items():
            if name == "gather" and value:
                yield "admit: gather"
            elif isinstance(value, bool) and value:
                yield f"{stage['kind']}: {name}"
    for name in FLAGS:
        if scheduler[name]:
            yield f"flag: {name}"
    if not scheduler["refund"]:
        yield "flag: not refund"
    if scheduler["watermark_blocks"]:
        yield "flag: watermark"
    if scheduler["long_prefill_token_threshold"]:
        yield "flag: long_prefill_token_threshold"
    yield f"victim: {scheduler['victim']}"
    yield f"allocation: {scheduler['allocation']}"
    yield f"preemption: {scheduler['preemption']['kind']}"
    if scheduler["preemption"].get("overlapped"):
        yield "preemption: overlapped copies"
    if scheduler["prefix_cache"]:
        first = "unknown first" if scheduler["prefix_cache"]["unknown_first"] else "queued alike"
        yield f"prefix cache: {first}"
    order = scheduler["order"]
    yield f"order: {order['kind']}"
    if order["kind"] == "ranked":
        yield from _of_ranking(order)
        yield f"admission: {scheduler['admission']['kind']}"
        if scheduler["admission"].get("most"):
            yield "displace: most"
        yield from _fields("displace when", scheduler["admission"].get("when"))
    yield f"cost: {instance['cost']['kind']}"
    if instance["traffic"]:
        yield "traffic"
    if scheduler["max_num_batched_tokens"] <= 8:
        yield "budget: 1 to 8"
    if instance["max_model_len"]:
        yield "max_model_len"


def _of_ranking(order: Wire) -> Iterator[str]:
    yield f"classes: {len(order['classes'])}"
    if order["quantum"]:
        yield "quantum"
    for name, value in order["refresh"].items():
        if value:
            yield f"refresh: {name}"
    for one in order["classes"]:
        if one["hold"]:
            yield "hold"
        yield from _fields("class", one["when"])
        for key in one["keys"]:
            yield from _fields("key", key)


def _of_rule(where: str, rule: Wire | None) -> Iterator[str]:
    if rule is None:
        return
    yield f"{where}: {rule['rule']}"
    for part in rule.get("rules", ()):
        yield from _of_rule(where, part)
    if rule.get("of"):
        yield from _of_rule(where, rule["of"])
    for name in ("min", "where", "accept", "when"):
        if rule.get(name):
            yield f"rule: {name}"
            yield from _fields("rule", rule[name])
    if rule.get("within"):
        yield "rule: within"


def _fields(where: str, part: Any) -> Iterator[str]:
    """Yield the fields and operations anywhere in a part of a configuration."""
    if isinstance(part, list):
        for one in part:
            yield from _fields(where, one)
    elif isinstance(part, dict):
        if "field" in part:
            yield f"{where}: {part['field']}"
        if "op" in part:
            yield f"op: {part['op']}"
        if "over" in part:
            yield f"over: {part['over']}"
        for value in part.values():
            yield from _fields(where, value)


def _of_requests(case: Case) -> Iterator[str]:
    rows = case.requests
    if len({row["arrival"] for row in rows}) < len(rows):
        yield "equal arrivals"
    if any(row["output_tokens"] == 1 for row in rows):
        yield "one-token outputs"
    if any(row.get("reasoning_tokens") for row in rows):
        yield "reasoning"
    if case.prefix_block_tokens:
        yield "prefix ids"
    if any("session" in row for row in rows):
        yield "sessions"


def exercised(replayed: Replayed) -> set[str]:
    """Return what was seen to happen in a replay."""
    found: set[str] = set()
    statuses = set(replayed.column("status"))
    for status, name in (
        (FINISHED, "finished"),
        (REJECTED, "rejected"),
        (RUNNING, "cut off running"),
        (WAITING, "cut off waiting"),
    ):
        if status in statuses:
            found.add(name)
    if any(replayed.column("reason")):
        found |= {f"rejected: {reason}" for reason in set(replayed.column("reason")) - {0}}
    if any(replayed.column("migrations")):
        found.add("moved")
    for index, used in enumerate(replayed.stats["instances"]):
        log = replayed.decisions[index]
        scheduler = replayed.case.config["instances"][index]["scheduler"]
        found |= set(_of_usage(used, scheduler))
        found |= set(_of_log(log, scheduler, used))
    return found


def _of_usage(used: Wire, scheduler: Wire) -> Iterator[str]:
    if used["preemptions"]:
        yield "preempted"
        yield f"preempted: victim {scheduler['victim']}"
        yield f"preempted: allocation {scheduler['allocation']}"
        yield f"preempted: {scheduler['preemption']['kind']}"
        for name in FLAGS:
            if scheduler[name]:
                yield f"preempted with {name}"
    if used["swapped_out_blocks"]:
        yield "swapped out"
    if used["swapped_in_blocks"]:
        yield "swapped in"
    if used["swap_overflows"]:
        yield "swap overflowed"
    if used["prefix_hits"]:
        yield "prefix hit"
    if used["evictions"]:
        yield "evicted"
    if used["landed"]:
        yield "landed"
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
