"""Flips: rules, and actions of monitors, that change the pool of an instance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from paceline._arguments import typed
from paceline._check import said
from paceline.errors import PolicyError
from paceline.policy.checks import whole
from paceline.policy.counting import Counting
from paceline.policy.expressions.scope import Scope, condition
from paceline.policy.expressions.tree import Operand
from paceline.policy.expressions.wire import spelled
from paceline.policy.rules import Chain, FirstOf, Pick, Rule, Unless, When, bounded, each, is_rule
from paceline.policy.value import shown

__all__ = ["Flip", "check_action", "check_flips", "flip", "flips_in", "pools_of"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Flip(Chain):
    """Change the pool of the instance that a rule picks, and pick it. Made by `flip`."""

    of: Rule
    to: str
    keep: int = 1
    picks: bool = True

    def __post_init__(self) -> None:
        bounded(self)

    def __repr__(self) -> str:
        keep = "" if self.keep == 1 else f", keep={self.keep}"
        picks = "" if self.picks else ", picks=False"
        return f"flip({shown(self.of)}, to={self.to!r}{keep}{picks})"

    @property
    def inner(self) -> tuple[object, ...]:
        """The rule that picks the instance."""
        return (self.of,)


@typed(PolicyError)
def flip(
    rule: Rule, *, to: str, when: Operand | None = None, keep: int = 1, picks: bool = True
) -> Flip | When:
    """Change the pool of the instance that a rule picks, and pick it.

    The instance joins the pool at once, unless the policy's `Pools` have a pool for
    instances on their way there (``leaving``) and the instance does not meet its
    condition yet. If it is in the pool already, or on its way, it is picked and
    nothing changes.

    Parameters
    ----------
    rule
        Picks the instance.
    to
        The pool that it is to join.
    when
        A condition on `cluster` and the request, without which `rule` is not
        asked and no instance is picked; None: always.
    keep
        How many instances must stay, in the pool that it leaves or on their way
        there. If fewer would, no instance is picked.
    picks
        Whether the instance is picked. If not, none is, and `first_of` asks its next
        rule after the pool has changed.

    Raises
    ------
    PolicyError
        If `rule` is no rule or flips itself, or another argument is of the wrong
        kind.

    Examples
    --------
    >>> from paceline import cluster, inst
    >>> from paceline.policy import pick
    >>> flip(pick(min=inst.requests, within="decode"), to="prefill", when=cluster.count(within="decode") > 2)
    flip(pick(min=inst.requests, within='decode'), to='prefill').when(cluster.count(within='decode') > 2)
    """
    is_rule(rule, "the rule of flip()")
    for part in each(rule):
        if isinstance(part, Flip):
            raise PolicyError(f"the rule of flip() must not flip itself, was {shown(rule)}")
    whole("keep of flip()", keep, least=0)
    flipped = Flip(rule, spelled(to), keep, picks)
    return flipped if when is None else flipped.when(when)


def check_flips(rule: object, what: str) -> None:
    """Refuse a rule that may flip an instance and then not pick it."""
    for part in each(rule):
        if isinstance(part, Unless) and any(flips_in(part)):
            raise PolicyError(
                f"unless() in {what} must not follow a flip(), which has changed the pool already; put it "
                f"inside: flip(pick(...).unless(...), to=...), was {shown(part)}"
            )


def check_action(action: object, what: str) -> None:
    """Check a rule as the action of a monitor: it flips, and reads no request.

    Raises
    ------
    PolicyError
        If it does not flip whatever it picks, or a part needs a request.
    """
    if not _flips(action):
        actions = "migrate(), flip(), scale() and gauge()"
        raise PolicyError(f"{what} must have lists of {actions}, was {said(action)}")
    check_flips(action, what)
    for part in each(action):
        if isinstance(part, Pick):
            part.checked(f"pick() in flip() of {what}", Scope.MONITOR)
        elif isinstance(part, When):
            condition(part.condition, f"when of flip() in {what}", Scope.ASKED_BY_MONITOR)
        elif not isinstance(part, Flip | FirstOf | Counting | str):
            raise PolicyError(
                f"flip() in {what} must pick by pick(), first_of() or a rule that counts, as a monitor "
                f"has no request, was {shown(part)}"
            )


def _flips(rule: object) -> bool:
    """Whether each instance that a rule picks has been flipped."""
    if isinstance(rule, FirstOf):
        return all(_flips(part) for part in rule.rules)
    return isinstance(rule, Flip) or (isinstance(rule, When) and _flips(rule.of))


def flips_in(rule: object) -> Iterator[Flip]:
    """Yield each flip in a rule."""
    return (part for part in each(rule) if isinstance(part, Flip))


def pools_of(rule: object) -> frozenset[str] | None:
    """Return the pools of which a rule may pick instances; None: of any."""
    if isinstance(rule, Pick | Counting):
        return None if rule.within is None else frozenset(map(spelled, rule.within))
    if isinstance(rule, FirstOf | When | Unless):
        several = [pools_of(part) for part in rule.inner]
        return None if None in several else frozenset().union(*(part for part in several if part is not None))
    return None
