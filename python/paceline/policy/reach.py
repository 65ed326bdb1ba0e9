"""Between which instances a policy may move requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from paceline.policy.flips import Flip
from paceline.policy.monitors import Migrate
from paceline.policy.rules import FirstOf, Stay, Unless, When, each

if TYPE_CHECKING:
    from paceline.policy.policy import Policy

__all__ = ["Moves", "moves_of"]

_MADE_OF_RULES = (FirstOf, Flip, Stay, Unless, When)

Moves = tuple[str, frozenset[int], frozenset[int]]
"""The name of a rule, the instances from which it may move requests, and those to which it may."""


def moves_of(policy: Policy, instances: int) -> Iterator[Moves]:
    """Yield what each rule and each monitor of a policy may move, judged by the pools that it names.

    Conditions are not evaluated. A rule that names no pool, and a Python function, may pick any instance.
    """
    everywhere = frozenset(range(instances))
    arrive = _picked(policy, policy.on_arrival, everywhere)
    after_prefill = "on_prefilled" if policy.decode_on_arrival is None else "decode_on_arrival"
    prefilled = _picked(policy, policy.rules[after_prefill], everywhere)
    answering = _picked(policy, policy.on_answering, everywhere)
    actions = [action for _, actions in policy.monitors for action in actions if isinstance(action, Migrate)]
    monitored = frozenset[int]().union(*(_within(policy, action.target, everywhere) for action in actions))
    anywhere = arrive | prefilled | answering | monitored
    if prefilled:
        yield after_prefill, arrive, prefilled
    if answering:
        yield "on_answering", arrive | prefilled | monitored, answering
    for action in actions:
        source = _within(policy, action.source, everywhere) & anywhere
        yield "a monitor", source, _within(policy, action.target, everywhere)


def _picked(policy: Policy, rule: object, everywhere: frozenset[int]) -> frozenset[int]:
    """Return the instances that a rule may pick, apart from the one that the request is on."""
    if rule is None:
        return frozenset()
    parts = (part for part in each(rule) if not isinstance(part, _MADE_OF_RULES))
    return frozenset[int]().union(*(_within(policy, part, everywhere) for part in parts))


def _within(policy: Policy, rule: object, everywhere: frozenset[int]) -> frozenset[int]:
    """Return the instances of the pools that a rule names."""
    names: Sequence[str] | None = getattr(rule, "within", None)
    pools = policy.pools
    # Instances that change their pool may be in any.
    if names is None or pools is None or policy.flips:
        return everywhere
    codes = {pools.names.index(name) for name in names}
    roles = pools.roles(len(everywhere))
    return frozenset(instance for instance, role in enumerate(roles) if role in codes)
