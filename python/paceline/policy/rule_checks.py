"""Checks of a rule for the moment at which it is asked."""

from __future__ import annotations

from collections.abc import Callable

from paceline.errors import PolicyError
from paceline.policy.at_router import Hold, Reject
from paceline.policy.expressions.scope import Scope, condition
from paceline.policy.expressions.wire import spelled
from paceline.policy.rules import Chain, FirstOf, Pick, Stay, Unless, When, each, is_rule
from paceline.policy.value import shown

__all__ = ["always", "check"]


def check(rule: object, what: str, *, arrival: bool, steady: Steady | None = None) -> None:
    """Check a rule for its moment: on arrival, or when a request may migrate.

    Parameters
    ----------
    rule, what
        The rule, and its name in errors.
    arrival
        Whether it is asked about arrivals, each of which needs an instance.
    steady
        Whether there is an instance in one of some pools at every moment; None:
        pools are never empty.

    Raises
    ------
    PolicyError
        If a part reads a field that it cannot see, or an arrival may be left
        without an instance.
    """
    for part in each(rule):
        is_rule(part, what)
        if isinstance(part, Pick):
            part.checked(f"pick() in {what}", Scope.ARRIVAL if arrival else Scope.MOVE)
        elif isinstance(part, Hold | Reject):
            if not arrival:
                raise PolicyError(f"{what} must not have {shown(part)}: only a request that arrives can be")
            if isinstance(part, Reject) and part.condition is not None:
                condition(part.condition, f"reject() in {what}", Scope.REJECT)
        elif isinstance(part, Unless):
            if isinstance(part.of, Hold | Reject):
                raise PolicyError(f"{what} must not have {part!r}: {shown(part.of)} picks no instance")
            scope = Scope.PICKED_ON_ARRIVAL if arrival else Scope.PICKED
            condition(part.condition, f"unless() in {what}", scope)
        elif isinstance(part, When):
            condition(part.condition, f"when() in {what}", Scope.ASKED if arrival else Scope.ASKED_ON_MOVE)
        elif isinstance(part, Stay):
            if arrival:
                raise PolicyError(
                    f"{what} must not have stay(): a request that arrives is on no instance yet"
                )
            if part.condition is not None:
                condition(part.condition, f"stay() in {what}", Scope.STAY)
        elif isinstance(part, FirstOf):
            _reached(part, what)
    if arrival and not always(rule, steady):
        last = rule.rules[-1] if isinstance(rule, FirstOf) else rule
        if always(rule):
            raise PolicyError(
                f"{what} must always pick an instance, but its pools may be empty, as instances change "
                f"theirs; end with an alternative without within, or with one that also names the pools of "
                f"instances on their way: first_of({shown(rule)}, pick(min=inst.requests))"
            )
        raise PolicyError(
            f"{what} must always pick an instance, but {shown(last)} may pick none; end with an "
            f"alternative without where and accept: first_of({shown(rule)}, pick(min=inst.requests))"
        )


def _reached(rule: FirstOf, what: str) -> None:
    for number_, part in enumerate(rule.rules[:-1], start=1):
        if _certain(part) == _EVERYWHERE and not callable(part):
            raise PolicyError(
                f"{what} never reaches rule {number_ + 1} of {shown(rule)}: {shown(part)} always picks one"
            )


Steady = Callable[[frozenset[str]], bool]
"""Whether there is an instance in one of some pools at every moment."""

_EVERYWHERE = frozenset({""})
"""Stands for all instances; no pool has an empty name."""


def always(rule: object, steady: Steady | None = None) -> bool:
    """Whether a rule picks an instance in every state of the cluster; `steady` as in `check`."""
    pools_ = _certain(rule)
    return bool(pools_) and (pools_ == _EVERYWHERE or steady is None or steady(pools_))


def _certain(rule: object) -> frozenset[str]:
    """Return the pools in which a rule picks an instance if there is one; empty if it may pick none."""
    if isinstance(rule, FirstOf):
        several = [_certain(part) for part in rule.rules]
        return _EVERYWHERE if _EVERYWHERE in several else frozenset().union(*several)
    if isinstance(rule, Chain):
        if rule.conditional:
            return frozenset()
        within = getattr(rule, "within", None)
        return _EVERYWHERE if within is None else frozenset(map(spelled, within))
    return _EVERYWHERE
