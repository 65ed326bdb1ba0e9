"""The policies that the paper compares, as `paceline.policies` ships them, and the cluster they run on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from paceline import Cluster, Instance, Links, policies
from paceline.policy import Pace, Policy
from paceline.study.paper import Paper
from paceline.study.pascal.hardware import LINK_GBPS

__all__ = ["PAPER", "POLICIES", "SLO_QOE", "TPOT_S", "TTFAT_S", "Arguments", "cluster_of", "scheduler"]

PAPER: Final = Paper.load(__package__)
TTFAT_S, TPOT_S, SLO_QOE = (PAPER["objective", name].number for name in ("ttfat", "tpot", "qoe"))

#: Arguments of the policies' functions: by the function's name, and ``"all"`` for each of them.
Arguments: TypeAlias = Mapping[str, Mapping[str, Any]]

_FUNCTIONS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "FCFS": ("fcfs", {}),
    "RR": ("round_robin_quanta", {}),
    "PASCAL": ("pascal", {}),
    "PASCAL(NoMigration)": ("pascal", {"migration": "never"}),
    "PASCAL(NonAdaptive)": ("pascal", {"migration": "always"}),
}

POLICIES: Final = tuple(_FUNCTIONS)
"""As the paper calls them."""


def scheduler(
    name: str, *, arguments: Arguments | None = None, first_answer_s: float | None = None
) -> Policy:
    """Return a policy of the paper: the shipped function without arguments, but for the named variant.

    Parameters
    ----------
    name
        One of `POLICIES`.
    arguments
        Of variations; by default none, so that the study runs the policy that the package ships.
    first_answer_s
        Seconds to the first answer token that users expect, for a QoE with a term for it (Figure 5); ``None``
        for a QoE without, as in the paper's evaluation.

    Returns
    -------
    Policy
        With the paper's pace, by which QoE is measured. FCFS and RR ship without one and do not read it.
    """
    function, variant = _FUNCTIONS[name]
    given = arguments or {}
    policy: Policy = getattr(policies, function)(
        **{**given.get("all", {}), **given.get(function, {}), **variant}
    )
    return replace(policy, pace=Pace(tpot=TPOT_S, first=TTFAT_S, ttft=first_answer_s))


def cluster_of(instance: Instance, instances: int) -> Cluster:
    """Return a cluster of equal instances, joined by the paper's links."""
    return Cluster(instances * [instance], links=Links(gbps=LINK_GBPS))
