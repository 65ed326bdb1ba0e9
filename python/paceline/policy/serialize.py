"""Policies as TOML tables, and back: expressions and rules are strings in the syntax of their `repr`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, get_args

from paceline._check import said
from paceline._toml import build, parse
from paceline.errors import ConfigError, PolicyError
from paceline.objectives import SLO
from paceline.policy.at_router import hold, reject
from paceline.policy.books import ActiveBlocks, PrefixIndex, PromptTree
from paceline.policy.counting import fewest_requests, fewest_tokens, round_robin
from paceline.policy.eviction import Eviction
from paceline.policy.expressions import text
from paceline.policy.expressions.tree import Expr
from paceline.policy.flips import flip
from paceline.policy.gauges import gauge
from paceline.policy.handover import Handover
from paceline.policy.loras import Loras
from paceline.policy.monitors import Live, Migrate, migrate
from paceline.policy.pacing import Pace
from paceline.policy.pipelines import Pipelined
from paceline.policy.pools import Pools
from paceline.policy.prefix_cache import PrefixCache, RadixTree
from paceline.policy.prompt_batches import PromptBatch
from paceline.policy.queues import Class, Displace, Levels, Quantum, Refresh
from paceline.policy.reserves import OutputReserve
from paceline.policy.routers import Reports
from paceline.policy.rules import (
    Chain,
    Rule,
    affinity,
    first_of,
    is_rule,
    pick,
    prompt_owner,
    stay,
)
from paceline.policy.scaling import ScalingLimit, ScalingRules, scale
from paceline.policy.scheduler import QueueOrder, Scheduler
from paceline.policy.stages import (
    Admit,
    Gather,
    Groups,
    Layered,
    PcieSwap,
    Recompute,
    Stage,
    Swap,
)
from paceline.policy.stores import Prefetch, Store
from paceline.policy.tiers import Host
from paceline.policy.value import structure
from paceline.policy.wire import MOMENTS, Monitors

__all__ = [
    "handover_to_table",
    "monitors_to_tables",
    "policy_fields",
    "rule_from_text",
    "scheduler_from_table",
    "to_table",
]

_STAGES: dict[str, type] = {cls.__dataclass_fields__["kind"].default: cls for cls in get_args(Stage)}
_PREEMPTIONS: dict[str, type] = {"recompute": Recompute, "swap": Swap, "swap_over_pcie": PcieSwap}
_AS_TEXT = (Expr, Chain, Migrate, Quantum, Levels, Displace, Eviction)
_NAMES: dict[str, Any] = {
    **text.NAMES,
    "pick": pick,
    "first_of": first_of,
    "stay": stay,
    "flip": flip,
    "round_robin": round_robin,
    "fewest_requests": fewest_requests,
    "fewest_tokens": fewest_tokens,
    "affinity": affinity,
    "hold": hold,
    "reject": reject,
    "prompt_owner": prompt_owner,
    "migrate": migrate,
    "Live": Live,
    "scale": scale,
    "gauge": gauge,
    "ScalingLimit": ScalingLimit,
    "ScalingRules": ScalingRules,
    "Quantum": Quantum,
    "Levels": Levels,
    "Displace": Displace,
    "Eviction": Eviction,
}


_TABLES: dict[str, type] = {
    "pace": Pace,
    "slo": SLO,
    "reports": Reports,
    "index": PrefixIndex,
    "active": ActiveBlocks,
    "tree": PromptTree,
}


def policy_fields(source: str) -> dict[str, Any]:
    """Return the fields of a policy that was written as TOML.

    Raises
    ------
    PolicyError, ConfigError
        If the text is not TOML, or a field is of the wrong kind.
    """
    content = parse(source, "a policy")
    if "pools" in content:
        content["pools"] = _pools(content["pools"])
    if "scheduler" in content:
        content["scheduler"] = _schedulers(content["scheduler"], content.get("pools"))
    for moment in MOMENTS:
        rule = content.get(moment)
        if isinstance(rule, str) and "(" in rule:
            content[moment] = rule_from_text(rule, moment)
        elif moment in content and not isinstance(rule, str):
            raise PolicyError(f"{moment} must be a string, was {said(rule)}")
    if "every" in content:
        content["every"] = _monitors(content["every"])
    if "handover" in content:
        content["handover"] = _handover(content["handover"])
    for name, cls in _TABLES.items():
        if name in content:
            content[name] = build(cls, content[name], name)
    return content


def handover_to_table(handover: Handover) -> dict[str, Any]:
    """Return the rules of a hand-over, without limits that are not set; no lease is infinite."""
    table = {"most_transfers": handover.most_transfers, "most_held": handover.most_held}
    lease = math.inf if handover.lease is None else handover.lease
    overlap: dict[str, Any] = {} if handover.overlap == "none" else {"overlap": handover.overlap}
    if handover.offer != "prefilled":
        overlap |= {"offer": handover.offer}
    if handover.reserve_tokens is not None:
        overlap |= {"reserve_tokens": handover.reserve_tokens, "reserve_clip": handover.reserve_clip}
    return {
        **{name: value for name, value in table.items() if value is not None},
        "lease": lease,
        **overlap,
    }


def _handover(content: object) -> Handover | None:
    if content == "none":
        return None
    if not isinstance(content, Mapping):
        raise PolicyError(f'handover must be a table or "none", was {said(content)}')
    fields = dict(content)
    if fields.get("lease") == math.inf:
        fields["lease"] = None
    return build(Handover, fields, "handover")


def monitors_to_tables(monitors: Monitors) -> list[dict[str, Any]]:
    """Return monitors as tables of a period and the text of its actions."""
    return [
        {"seconds": seconds, "actions": [repr(action) for action in actions]} for seconds, actions in monitors
    ]


def rule_from_text(source: str, what: str) -> Rule:
    """Read a rule as `Policy.to_toml` writes it; ``what`` names it in an error.

    Raises
    ------
    PolicyError
        If the text is no rule.
    """
    rule: Rule = _read(source, what)
    if not isinstance(rule, str | Chain):  # the text may name functions, and none of them is a rule
        raise PolicyError(f"{what} must be a rule (pick, first_of, stay, flip) or a name, was {source!r}")
    is_rule(rule, what)
    return rule


def _pools(content: object) -> Pools:
    fields = dict(_table(content, "pools"))
    leaving = _table(fields.pop("leaving", {}), "leaving of pools")
    for name in leaving:
        if isinstance(leaving[name], str):
            leaving = {**leaving, name: _read(leaving[name], f"leaving[{name!r}] of pools")}
    return Pools(leaving=leaving, **fields)


def _schedulers(content: object, pools: Pools | None) -> Scheduler | dict[str, Scheduler]:
    """Read a scheduler, or a scheduler for each pool: tables that have the names of pools."""
    tables = _table(content, "scheduler")
    by_pool = pools is not None and tables and set(tables) <= set(pools.sizes)
    if by_pool and all(isinstance(table, Mapping) for table in tables.values()):
        return {pool: scheduler_from_table(table) for pool, table in tables.items()}
    return scheduler_from_table(tables)


def _monitors(tables: object) -> list[tuple[float, list[object]]]:
    pairs = []
    for table in tables if isinstance(tables, list) else [tables]:
        if not isinstance(table, Mapping) or set(table) != {"seconds", "actions"}:
            raise PolicyError(f"every must be tables with seconds and actions, was {said(table)}")
        actions = table["actions"]
        if not isinstance(actions, list):
            raise PolicyError(f"actions of every must be a list of strings, was {said(actions)}")
        pairs.append((table["seconds"], [_read(action, "every") for action in actions]))
    return pairs


def _table(content: object, what: str) -> Mapping[str, Any]:
    """Return a table of a policy's file; refuse anything else."""
    if not isinstance(content, Mapping):
        raise PolicyError(f"{what} must be a table, was {said(content)}")
    return content


def _tables(content: object, what: str) -> list[Mapping[str, Any]]:
    """Return a list of tables of a policy's file; refuse anything else."""
    if not isinstance(content, list | tuple):
        raise PolicyError(f"{what} must be tables, [[scheduler.{what}]], was {said(content)}")
    return [_table(each, f"each of {what}") for each in content]


def _read(source: object, what: str) -> Any:  # noqa: ANN401 - whatever the text stands for
    if not isinstance(source, str):
        raise PolicyError(f"{what} must be a string, was {said(source)}")
    return text.evaluate(source, what, _NAMES, (Chain,))


def to_table(value: Any) -> Any:  # noqa: ANN401 - whatever a policy holds
    """Return a policy, or a part of one, as tables, lists and plain values, without some defaults."""
    if isinstance(value, _AS_TEXT):
        return repr(value)
    if isinstance(value, Pools):
        leaving = {name: to_table(done) for name, done in value.leaving.items()}
        off = {"switched_off": list(value.switched_off)} if value.switched_off else {}
        return {**value.sizes, **off, **({"leaving": leaving} if leaving else {})}
    if dataclasses.is_dataclass(value):
        return {
            field.name: to_table(part)
            for field in dataclasses.fields(value)
            if (part := getattr(value, field.name)) is not None
            and not (field.name in _LEFT_OUT and structure(part) == structure(field.default))
        }
    if isinstance(value, Mapping):
        return {name: to_table(part) for name, part in value.items()}
    if isinstance(value, tuple | list):
        return [to_table(part) for part in value]
    return value


_LEFT_OUT = (
    *("classes", "admission", "every", "hold", "routers", "seed"),
    *("max_num_partial_prefills", "max_long_partial_prefills", "bucket", "loras"),
)
_PARTS: Mapping[str, type] = {
    "loras": Loras,
    "output_reserve": OutputReserve,
    "pipelined": Pipelined,
    "prompt_batch": PromptBatch,
}
_LIMITS = ("max_num_batched_tokens", "long_prefill_token_threshold", "bucket")


def scheduler_from_table(content: Mapping[str, Any]) -> Scheduler:
    """Read a scheduler from its table.

    Raises
    ------
    PolicyError
        If a field is unknown, missing or of the wrong kind.
    """
    try:
        fields = dict(_table(content, "scheduler"))
        if "stages" in fields:
            fields["stages"] = tuple(_stage(stage) for stage in _tables(fields["stages"], "stages"))
        if "preemption" in fields and not isinstance(fields["preemption"], str):
            kind = _table(fields["preemption"], "preemption").get("kind", "recompute")
            if not isinstance(kind, str) or kind not in _PREEMPTIONS:
                known = ", ".join(_PREEMPTIONS)
                raise PolicyError(f"kind of preemption must be one of {known}, was {said(kind)}")
            fields["preemption"] = build(_PREEMPTIONS[kind], fields["preemption"], "preemption")
        if "prefix_cache" in fields:
            cache = dict(_table(fields["prefix_cache"], "prefix_cache"))
            if "evict" in cache:
                cache["evict"] = _read(cache["evict"], "evict of prefix_cache")
            if "tree" in cache:
                what = "tree of prefix_cache"
                cache["tree"] = build(RadixTree, _table(cache["tree"], what), what)
            if "tiers" in cache:
                tiers = _tables(cache["tiers"], "tiers of prefix_cache")
                cache["tiers"] = tuple(_tier(tier) for tier in tiers)
            fields["prefix_cache"] = build(PrefixCache, cache, "prefix_cache")
        for name, kind in _PARTS.items():
            if name in fields:
                fields[name] = build(kind, fields[name], name)
        if "order" in fields:
            fields["order"] = _order(fields["order"], "order")
        if "classes" in fields:
            fields["classes"] = tuple(_class(each) for each in _tables(fields["classes"], "classes"))
        if "refresh" in fields:
            fields["refresh"] = build(Refresh, fields["refresh"], "refresh")
        if isinstance(fields.get("admits"), str):
            fields["admits"] = _read(fields["admits"], "admits")
        if isinstance(fields.get("admission"), str) and "(" in fields["admission"]:
            fields["admission"] = _read(fields["admission"], "admission")
        for name in _LIMITS:
            if isinstance(fields.get(name), str):
                fields[name] = _read(fields[name], name)
        return build(Scheduler, fields, "the scheduler")
    except (ConfigError, AttributeError, TypeError) as error:
        raise PolicyError(f"policy: {error}") from error


def _tier(content: Mapping[str, Any]) -> Host | Store:
    what = "tiers of prefix_cache"
    if content.get("kind") != "store":
        return build(Host, content, what)
    fields = dict(content)
    if "prefetch" in fields:
        fields["prefetch"] = build(Prefetch, fields["prefetch"], f"prefetch of {what}")
    return build(Store, fields, what)


def _order(order: object, what: str) -> object:
    if isinstance(order, list):
        return tuple(_read(key, what) for key in order)
    if isinstance(order, str) and order not in get_args(QueueOrder) and not order.isidentifier():
        return _read(order, what)
    return order


def _class(content: Mapping[str, Any]) -> Class:
    fields = dict(_table(content, "a class"))
    what = f"Class {fields.get('name')!r}"
    if "when" in fields:
        fields["when"] = _read(fields["when"], f"when of {what}")
    if "order" in fields:
        fields["order"] = _order(fields["order"], f"order of {what}")
    return build(Class, fields, what)


def _stage(content: Mapping[str, Any]) -> Stage:
    kind = content.get("kind")
    if not isinstance(kind, str) or kind not in _STAGES:
        raise PolicyError(f"kind of a stage must be one of {', '.join(_STAGES)}, was {kind!r}")
    cls = _STAGES[kind]
    fields = dict(content)
    if cls is Admit and "gather" in fields:
        fields["gather"] = build(Gather, fields["gather"], "gather")
    if cls is Layered and "groups" in fields:
        fields["groups"] = build(Groups, fields["groups"], "groups")
    stage: Stage = build(cls, fields, f"stage {kind}")
    return stage
