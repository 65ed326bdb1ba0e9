"""The mechanisms that a case has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from search.case import Case

Wire = dict[str, Any]
FLAGS = (
    *("threshold_when_alone", "exclusive_prefill", "watermark_when_idle", "spare_block", "decodes_first"),
    *("refund", "stop_at_own_preemption", "requeue_late", "schedule_ahead"),
)
SELDOM = (
    *("requeue_last", "output_reserve", "whole_block_chunks", "prompt_batch", "drop_unseen", "unseen_ends"),
)


def drawn(case: Case) -> set[str]:
    """Return the mechanisms that a case has."""
    found: set[str] = set()
    config = case.config
    for instance in config["instances"]:
        found |= set(_of_instance(instance))
    routing = config["routing"]
    for name in ("on_arrival", "decode_on_arrival", "on_prefilled", "on_answering"):
        found |= set(_of_rule(name, routing.get(name)))
    for monitor in routing["every"]:
        found.add("monitor")
        for action in monitor["actions"]:
            if action["action"] == "scale":
                found |= set(_of_scale(action))
                continue
            if action["action"] == "gauge":
                found |= {f"gauge: {action['take']}", *_fields("monitor", action["of"])}
                continue
            live = action["live"]
            found.add("migrate: live" if live and live["stages"] else "migrate: at once")
            if live and live["stages"] and config.get("handover") is not None:
                found.add("migrate: live, beside hand-overs")
            for part in ("source", "target", "choose", "when"):
                found |= set(_fields("monitor", action[part]))
    for name in ("links", "pace", "lockstep", "sample"):
        if config.get(name) is not None:
            found.add(name)
    found |= set(_of_groups(config))
    found |= set(_of_handover(config))
    for name, value in (config.get("routers") or {}).items():
        if name != "seed" and value not in (None, 1):
            found.add(f"routers: {name}")
    if config["until"] is not None:
        found.add("until")
    if any(config["roles"]):
        found.add("roles")
    found.add(f"instances: {len(config['instances'])}")
    found |= set(_of_requests(case))
    return found


def _of_groups(config: Wire) -> Iterator[str]:
    """Yield what the instances have that step together."""
    groups = config.get("lockstep") or []
    members = sum(len(group["members"]) for group in groups)
    if len(groups) > 1:
        yield "lockstep: groups"
    if groups and members < len(config["instances"]):
        yield "lockstep: others alone"
    for name in ("balance", "prompts"):
        if any(group.get(name) for group in groups):
            yield f"lockstep: {name}"


def _of_scale(action: Wire) -> Iterator[str]:
    """Yield the rules of an action that sets the size of a pool."""
    yield "scale"
    for name in ("when", "averaged", "most"):
        if action[name]:
            yield f"scale: {name}"
    for name in ("up", "down"):
        for part in ("window", "limits"):
            if action[name][part]:
                yield f"scale: {name}, {part}"
    for part in ("wanted", "when", "start", "stop"):
        yield from _fields("monitor", action[part])


def _of_handover(config: Wire) -> Iterator[str]:
    """Yield the rules of hand-overs, if a request may migrate."""
    handover, routing = config.get("handover"), config["routing"]
    if handover is None or not any(rule for name, rule in routing.items() if name != "on_arrival"):
        return
    yield "handover"
    for name, value in handover.items():
        if value not in (None, "none", "prefilled"):
            yield f"handover: {name}"


def _of_instance(instance: Wire) -> Iterator[str]:
    scheduler = instance["scheduler"]
    if tier := instance.get("tier"):
        yield "tier"
        yield f"tier: {tier['eviction']}"
        yield f"tier: write {tier.get('write', 'completed')}"
        if instance["scheduler"]["schedule_ahead"]:
            yield "tier: decided ahead"
        for name in ("prompts_only", "store_threshold", "sync_tokens", "polls_at_end"):
            if tier[name]:
                yield f"tier: {name}"
        if instance["scheduler"]["stages"][-1]["kind"] == "decodes":
            yield "tier: decodes last"
        if (instance["scheduler"]["prefix_cache"] or {}).get("tree"):
            yield f"tier: of a tree, write {tier.get('write', 'completed')}"
        if tier.get("overlap_layers"):
            yield "tier: overlap_layers"
        if below := tier.get("below"):
            yield "store"
            if rule := below.get("prefetch"):
                yield f"store: prefetch {rule['stop']['kind']}"
    if pipeline := instance.get("pipeline"):
        yield "pipeline"
        yield f"pipeline: {min(pipeline['batches'], 4)} batches"
        if pipeline["empty_batches"]:
            yield "pipeline: empty_batches"
    if speculation := instance.get("speculation"):
        yield "speculation"
        yield f"speculation: {speculation['acceptance']['kind']}"
        for name in (
            "by_batch",
            "proposals",
            "lookahead",
            "input_slots",
            "hash_lookahead",
            "drops_last_block",
            "pads",
        ):
            if speculation[name]:
                yield f"speculation: {name}"
        if "slots" in speculation:
            yield "speculation: two_steps"
    kinds = [stage["kind"] for stage in scheduler["stages"]]
    yield from _orders(kinds)
    for stage in scheduler["stages"]:
        for name, value in stage.items():
            if name == "gather" and value:
                yield "admit: gather"
            elif (isinstance(value, bool) and value) or (name.endswith("_blocks") and value):
                yield f"{stage['kind']}: {name}"
    for name in FLAGS:
        if scheduler[name]:
            yield f"flag: {name}"
    if scheduler.get("receive_interval", 1) > 1:
        yield "flag: receive_interval"
    for name in SELDOM:
        if scheduler.get(name):
            yield f"flag: {name}"
    if scheduler.get("output_reserve") and scheduler["preemption"]["kind"] == "swap":
        yield "preemption: swap beside a reserve"
    if not scheduler["refund"]:
        yield "flag: not refund"
    if scheduler["watermark_blocks"]:
        yield "flag: watermark"
    if scheduler["long_prefill_token_threshold"]:
        yield "flag: long_prefill_token_threshold"
    for part in ("varying", "joining"):
        for name, value in scheduler.get(part, {}).items():
            if value:
                yield f"{part}: {name}"
    yield f"victim: {scheduler['victim']}"
    yield f"allocation: {scheduler['allocation']}"
    yield f"preemption: {scheduler['preemption']['kind']}"
    if scheduler["preemption"].get("overlapped"):
        yield "preemption: overlapped copies"
    if scheduler["prefix_cache"]:
        first = "unknown first" if scheduler["prefix_cache"]["unknown_first"] else "queued alike"
        yield f"prefix cache: {first}"
        if scheduler["prefix_cache"].get("tree"):
            yield "prefix cache: tree"
            yield f"prefix cache: tree, order {scheduler['order']['kind']}"
        evict = scheduler["prefix_cache"].get("evict")
        if evict:
            yield f"evict: {'groups' if evict['groups'] else 'one order'}"
            for part in (evict["order"], *(evict["groups"] or {}).values()):
                yield from _fields("evict", part)
    order = scheduler["order"]
    yield f"order: {order['kind']}"
    if order["kind"] == "ranked":
        yield from _of_ranking(order)
        yield f"admission: {scheduler['admission']['kind']}"
        if scheduler["admission"].get("most"):
            yield "displace: most"
        if scheduler["admission"].get("when"):
            yield "displace: when"
        yield from _fields("displace", scheduler["admission"].get("when"))
    yield f"cost: {instance['cost']['kind']}"
    if instance["traffic"]:
        yield "traffic"
    if scheduler["max_num_batched_tokens"] <= 8:
        yield "budget: 1 to 8"
    if instance.get("model") is not None:
        yield "model"
    if instance["max_model_len"]:
        yield "max_model_len"


def _orders(kinds: list[str]) -> Iterator[str]:
    """Yield the order of the stages; for four stages, which have many orders, the order of each pair."""
    if len(kinds) < 4:
        yield "stages: " + ", ".join(kinds)
    for at, kind in enumerate(kinds):
        yield f"stage: {kind}"
        for after in kinds[at + 1 :]:
            yield f"order: {kind} before {after}"


def _of_ranking(order: Wire) -> Iterator[str]:
    yield f"classes: {len(order['classes'])}"
    for name in ("quantum", "levels"):
        if order.get(name):
            yield name
    for name, value in order["refresh"].items():
        if value:
            yield f"refresh: {name}"
    for one in order.get("accumulators", ()):
        yield f"accumulated by: {one['by']}"
        yield f"accumulated when: {one['charges']['when']}"
        yield f"accumulated lift: {one['lift']}"
        for name in ("quantum", "half_life", "groups"):
            if one[name]:
                yield f"accumulated: {name}"
        for name in ("request", "running"):
            if one["charges"][name]:
                yield f"accumulated: {name}"
    if order.get("admits"):
        yield "admits"
    for one in order["classes"]:
        for name in ("hold", "hold_steps"):
            if one.get(name):
                yield name
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
            space, _, name = part["field"].partition(".")
            # Few expressions read two instances: for these, rules and monitors count as one.
            yield f"pair: {name}" if space in ("here", "there") else f"{where}: {part['field']}"
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
    for name in ("cancel_after", "cancel_tokens"):
        if any(row.get(name) is not None for row in rows):
            yield f"cancels: {name}"
    yield from _of_clients(case)


def _of_clients(case: Case) -> Iterator[str]:
    """Yield what requests wait for."""
    if any(row.get("think") is not None for row in case.requests):
        yield "clients: think times"
    if any(row.get("parents") for row in case.requests):
        yield "clients: parents"
        if any(len(set(row["parents"])) > 1 for row in case.requests):
            yield "clients: joins"
    if any(row.get("not_before") for row in case.requests):
        yield "clients: earliest moments"
    limit = case.config.get("clients")
    if limit is not None:
        yield "clients: limited by session" if limit["by_session"] else "clients: limited"
        if limit["gap"]:
            yield "clients: gap"
