"""The policy language: what a policy is made of.

`paceline.policies` is the catalog of policies that are written in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline._lazy import attach

if TYPE_CHECKING:
    from paceline.policy.at_router import hold, reject
    from paceline.policy.books import ActiveBlocks, PrefixIndex, PromptTree
    from paceline.policy.counting import fewest_requests, fewest_tokens, round_robin
    from paceline.policy.eviction import Eviction
    from paceline.policy.expressions import (
        Expr,
        accumulated,
        block,
        cluster,
        ilog2,
        inst,
        maximum,
        minimum,
        oracle,
        req,
        slo,
        where,
    )
    from paceline.policy.flips import Flip, flip
    from paceline.policy.gauges import Gauge, gauge
    from paceline.policy.handover import Handover
    from paceline.policy.loras import Loras
    from paceline.policy.monitors import Live, Migrate, migrate
    from paceline.policy.pacing import Pace
    from paceline.policy.pipelines import Pipelined
    from paceline.policy.policy import Policy
    from paceline.policy.pools import Pools
    from paceline.policy.prefix_cache import PrefixCache, RadixTree
    from paceline.policy.prompt_batches import PromptBatch
    from paceline.policy.python_routers import per_replay
    from paceline.policy.queues import Class, Displace, Levels, Quantum, Refresh
    from paceline.policy.reserves import OutputReserve
    from paceline.policy.routers import Reports
    from paceline.policy.rules import (
        Routing,
        Rule,
        Ties,
        affinity,
        first_of,
        pick,
        prompt_owner,
        stay,
    )
    from paceline.policy.scaling import Scale, ScalingLimit, ScalingRules, scale
    from paceline.policy.scheduler import Scheduler
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
        Swap,
        SwapIn,
    )
    from paceline.policy.stores import Prefetch, Store
    from paceline.policy.tiers import Host

__all__ = [
    "ActiveBlocks",
    "Admit",
    "Class",
    "Decodes",
    "Displace",
    "Eviction",
    "Expr",
    "Flip",
    "Gather",
    "Gauge",
    "Groups",
    "Handover",
    "Host",
    "Layered",
    "Levels",
    "Live",
    "Loras",
    "Migrate",
    "OutputReserve",
    "Pace",
    "Pipelined",
    "Policy",
    "Pools",
    "Prefetch",
    "Prefills",
    "PrefixCache",
    "PrefixIndex",
    "PromptBatch",
    "PromptTree",
    "Quantum",
    "RadixTree",
    "Recompute",
    "Refresh",
    "Reports",
    "Routing",
    "Rule",
    "Running",
    "Scale",
    "ScalingLimit",
    "ScalingRules",
    "Scheduler",
    "Select",
    "Store",
    "Swap",
    "SwapIn",
    "Ties",
    "accumulated",
    "affinity",
    "block",
    "cluster",
    "fewest_requests",
    "fewest_tokens",
    "first_of",
    "flip",
    "gauge",
    "hold",
    "ilog2",
    "inst",
    "maximum",
    "migrate",
    "minimum",
    "oracle",
    "per_replay",
    "pick",
    "prompt_owner",
    "reject",
    "req",
    "round_robin",
    "scale",
    "slo",
    "stay",
    "where",
]

attach(
    __name__,
    {
        "at_router": ("hold", "reject"),
        "books": ("ActiveBlocks", "PrefixIndex", "PromptTree"),
        "counting": ("fewest_requests", "fewest_tokens", "round_robin"),
        "eviction": ("Eviction",),
        "expressions": (
            "Expr",
            "accumulated",
            "block",
            "cluster",
            "ilog2",
            "inst",
            "maximum",
            "minimum",
            "oracle",
            "req",
            "slo",
            "where",
        ),
        "flips": ("Flip", "flip"),
        "gauges": ("Gauge", "gauge"),
        "handover": ("Handover",),
        "loras": ("Loras",),
        "monitors": ("Live", "Migrate", "migrate"),
        "pacing": ("Pace",),
        "pipelines": ("Pipelined",),
        "policy": ("Policy",),
        "pools": ("Pools",),
        "prefix_cache": ("PrefixCache", "RadixTree"),
        "prompt_batches": ("PromptBatch",),
        "python_routers": ("per_replay",),
        "queues": ("Class", "Displace", "Levels", "Quantum", "Refresh"),
        "reserves": ("OutputReserve",),
        "routers": ("Reports",),
        "rules": (
            "Routing",
            "Rule",
            "Ties",
            "affinity",
            "first_of",
            "pick",
            "prompt_owner",
            "stay",
        ),
        "scaling": ("Scale", "ScalingLimit", "ScalingRules", "scale"),
        "scheduler": ("Scheduler",),
        "stages": (
            "Admit",
            "Decodes",
            "Gather",
            "Groups",
            "Layered",
            "Prefills",
            "Recompute",
            "Running",
            "Select",
            "Swap",
            "SwapIn",
        ),
        "stores": ("Prefetch", "Store"),
        "tiers": ("Host",),
    },
)
