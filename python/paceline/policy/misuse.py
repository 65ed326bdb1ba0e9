"""Warnings of policies that read or pick something that has no effect, or another one than it seems."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterator, Sequence

from paceline.errors import PolicyWarning
from paceline.policy.counting import Counting
from paceline.policy.expressions.tree import Const, Op
from paceline.policy.policy import Policy
from paceline.policy.rules import each

__all__ = ["warn_of_misuse"]


def warn_of_misuse(policy: Policy, tenants: Sequence[str]) -> None:
    """Warn of what a policy does in vain in a replay of a trace with these tenants.

    - It reads `inst.prefix_tokens`, and no instance has a prefix cache: it is 0 everywhere.
    - It counts over the instances of all pools, though it has several.
    - It names a tenant that the trace does not have, and that is nearly one that it has.
    """
    for text in (*_uncached(policy), *_pools(policy), *_tenants(policy, tenants)):
        warnings.warn(text, PolicyWarning, stacklevel=4)


def _uncached(policy: Policy) -> Iterator[str]:
    if any(scheduler.prefix_cache is not None for scheduler in policy.schedulers):
        return
    if any(
        (part.space.partition(".")[0], part.name) == ("inst", "prefix_tokens") for part in policy.fields()
    ):
        yield (
            "the policy reads inst.prefix_tokens(req), which is 0 where no scheduler has a prefix cache: "
            "Scheduler(prefix_cache=PrefixCache())"
        )


def _pools(policy: Policy) -> Iterator[str]:
    if policy.pools is None or len(policy.pools.sizes) < 2:
        return
    for moment, rule in policy.rules.items():
        for part in each(rule):
            if isinstance(part, str) or (isinstance(part, Counting) and part.within is None):
                names = ", ".join(policy.pools.sizes)
                yield (
                    f"{moment} picks from all pools ({names}) by {part!r}, which names none: "
                    "within= says from which it picks"
                )


def _tenants(policy: Policy, tenants: Sequence[str]) -> Iterator[str]:
    named = {
        arg.value
        for expression in policy.expressions()
        for part in expression.walk()
        if isinstance(part, Op) and part.args[0].kind == "tenant"
        for arg in part.args
        if isinstance(arg, Const) and isinstance(arg.value, str)
    }
    for name in sorted(named - set(tenants)):
        close = difflib.get_close_matches(name, tenants, n=1)
        if close:
            yield f"the policy names the tenant {name!r}, which the trace does not have; it has {close[0]!r}"
