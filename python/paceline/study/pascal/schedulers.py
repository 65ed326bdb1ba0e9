"""The policies that the paper compares, as `paceline.policies` ships them, and the cluster they run on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from paceline import Cluster, Instance, Links, policies
from paceline.policy import Pace, Policy
from paceline.study.pascal.hardware import LINK_GBPS
from paceline.study.pascal.paper import TPOT_S, TTFAT_S

__all__ = ["POLICIES", "Arguments", "cluster_of", "scheduler"]

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
        Of variations; None: none, so that the study and the package run the same policy.
    first_answer_s
        When users expect the first answer token, for a QoE with a term for it (Figure 5); the paper's
        evaluation has none.

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
    """Return a cluster of so many instances, joined by the paper's links."""
    return Cluster(instances * [instance], links=Links(gbps=LINK_GBPS))
