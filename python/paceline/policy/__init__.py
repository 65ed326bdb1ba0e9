"""The policy language: what a policy is made of.

`paceline.policies` is the catalog of policies that are written in it.
"""

from __future__ import annotations

from paceline.policy.books import ActiveBlocks, PrefixIndex, PromptTree
from paceline.policy.expressions import (
    Expr,
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
from paceline.policy.handover import Handover
from paceline.policy.monitors import Live, Migrate, migrate
from paceline.policy.pacing import Pace
from paceline.policy.policy import Policy
from paceline.policy.pools import Pools
from paceline.policy.queues import Class, Displace, Quantum, Refresh
from paceline.policy.rules import Routing, Rule, first_of, pick, prompt_owner, stay
from paceline.policy.scheduler import Scheduler
from paceline.policy.stages import (
    Admit,
    Decodes,
    Gather,
    Groups,
    Layered,
    Prefills,
    PrefixCache,
    Recompute,
    Running,
    Swap,
    SwapIn,
)

__all__ = [
    "ActiveBlocks",
    "Admit",
    "Class",
    "Decodes",
    "Displace",
    "Expr",
    "Gather",
    "Groups",
    "Handover",
    "Layered",
    "Live",
    "Migrate",
    "Pace",
    "Policy",
    "Pools",
    "Prefills",
    "PrefixCache",
    "PrefixIndex",
    "PromptTree",
    "Quantum",
    "Recompute",
    "Refresh",
    "Routing",
    "Rule",
    "Running",
    "Scheduler",
    "Swap",
    "SwapIn",
    "cluster",
    "first_of",
    "ilog2",
    "inst",
    "maximum",
    "migrate",
    "minimum",
    "oracle",
    "pick",
    "prompt_owner",
    "req",
    "slo",
    "stay",
    "where",
]
