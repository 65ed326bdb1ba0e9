"""Rules that route a request to an instance."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from paceline._arguments import typed
from paceline._check import said
from paceline.errors import PolicyError
from paceline.policy.checks import share, whole
from paceline.policy.expressions.namespaces import pools
from paceline.policy.expressions.scope import Scope, condition, number
from paceline.policy.expressions.tree import Expr, Operand, lift
from paceline.policy.limits import MOST_RULE_LEVELS, MOST_RULES
from paceline.policy.python_routers import is_class_of_routers
from paceline.policy.value import Value, shown

__all__ = [
    "Affinity",
    "AffinityKey",
    "Chain",
    "FirstOf",
    "Pick",
    "PromptOwner",
    "Router",
    "Routing",
    "Rule",
    "Stay",
    "Ties",
    "Unless",
    "When",
    "affinity",
    "each",
    "first_of",
    "is_rule",
    "pick",
    "prompt_owner",
    "stay",
]

Routing = Literal["round_robin", "fewest_requests", "fewest_tokens"]
"""Which instance an arrival joins; ties go to the lowest index.

``round_robin``: each in turn. ``fewest_requests``: the instance with the fewest
unfinished requests. ``fewest_tokens``: the instance with the fewest tokens of
prompt and of output so far, over its unfinished requests.
"""

Ties = Literal["first", "last", "next", "rotate", "spread", "random"]
"""Which of several instances a `pick` picks that have equal keys.

``first``, ``last``: the lowest or the highest index. ``next``: the first from the
one after the instance that the rule picked last, around. ``spread``: the first from
an instance on, around, that differs by router: of n instances, router r of m begins
at ``n * r // m``. ``rotate``: the same, and the beginning moves by one with each
choice. ``random``: any of them, by the policy's seed.
"""

AffinityKey = Literal["session", "tenant", "prefix"]
"""What requests have in common that `affinity` sends to the same instance."""

Router = Callable[..., Any]
"""A Python function that picks an instance; the guide on policies says what it is called with."""


class Chain(Value):
    """A rule that `unless` and `when` can put a condition on."""

    __slots__ = ()

    @property
    def inner(self) -> tuple[object, ...]:
        """The rules of which it is made."""
        return ()

    @property
    def conditional(self) -> bool:
        """Whether it may pick none even if there are instances in the pools that it names."""
        return True

    def when(self, condition: Operand) -> When:
        """Return a rule that asks this one only if a condition holds, and picks no instance otherwise.

        Parameters
        ----------
        condition
            A condition on `cluster`, on the request, and on `inst.here`, its
            present instance, if it has one.
        """
        return When(self, lift(condition))

    def unless(self, when: Operand) -> Unless:
        """Return a rule that picks no instance if a condition holds for the one that this rule picks.

        Parameters
        ----------
        when
            A condition on `inst.here`, the present instance, and `inst.there`,
            the one picked.
        """
        return Unless(self, lift(when))


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Pick(Chain):
    """Pick the best of the instances that a condition allows. Made by `pick`."""

    min: Any = ()
    max: Any = ()
    where: Expr | None = None
    accept: Expr | None = None
    within: tuple[str, ...] | None = None
    ties: Ties = "first"
    among: int | None = None
    temperature: float | None = None
    seed: int | None = None

    def __repr__(self) -> str:
        named = []
        for name in ("min", "max", "within", "where", "accept", "temperature", "seed"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, tuple) and not value):
                single = isinstance(value, tuple) and len(value) == 1
                named.append(f"{name}={shown(value[0] if single else value)}")
        if self.ties != "first":
            named.append(f"ties={self.ties!r}")
        if self.among is not None:
            named.append(f"among={self.among}")
        return f"pick({', '.join(named)})"

    def checked(self, what: str, scope: Scope) -> None:
        """Refuse fields that the rule cannot see in its scope."""
        for name in ("min", "max"):
            for key in getattr(self, name):
                number(key, f"{name} of {what}", scope)
        for name in ("where", "accept"):
            if getattr(self, name) is not None:
                condition(getattr(self, name), f"{name} of {what}", scope)

    @property
    def conditional(self) -> bool:
        """Whether it may pick none even if there are instances in the pools that it names."""
        return self.where is not None or self.accept is not None

    @property
    def keys(self) -> tuple[Expr, ...]:
        """The keys of which the picked instance has the smallest values."""
        return self.min or tuple(-key for key in self.max)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FirstOf(Chain):
    """Take the first rule that picks an instance. Made by `first_of`."""

    rules: tuple[Rule, ...]

    def __post_init__(self) -> None:
        bounded(self)

    @property
    def inner(self) -> tuple[object, ...]:
        """The rules of which it is made."""
        return self.rules

    def __repr__(self) -> str:
        return f"first_of({', '.join(shown(rule) for rule in self.rules)})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unless(Chain):
    """Pick no instance if a condition holds. Made by the ``unless`` of another rule."""

    of: Rule
    condition: Expr

    def __post_init__(self) -> None:
        bounded(self)

    def __repr__(self) -> str:
        return f"{shown(self.of)}.unless({self.condition!r})"

    @property
    def inner(self) -> tuple[object, ...]:
        """The rule that it may overrule."""
        return (self.of,)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class When(Chain):
    """Ask a rule only if a condition holds. Made by the ``when`` of another rule."""

    of: Rule
    condition: Expr

    def __post_init__(self) -> None:
        bounded(self)

    def __repr__(self) -> str:
        return f"{shown(self.of)}.when({self.condition!r})"

    @property
    def inner(self) -> tuple[object, ...]:
        """The rule that it asks."""
        return (self.of,)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Stay(Chain):
    """Keep the request where it is. Made by `stay`."""

    condition: Expr | None = None

    def __repr__(self) -> str:
        return "stay()" if self.condition is None else f"stay(when={self.condition!r})"

    @property
    def conditional(self) -> bool:
        """Whether it may pick none."""
        return self.condition is not None


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Affinity(Chain):
    """Pick the instance to which the hash of a key assigns the request. Made by `affinity`."""

    key: AffinityKey
    blocks: int | None = None
    within: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        named = "" if self.blocks is None else f", blocks={self.blocks}"
        if self.within is not None:
            named += f", within={shown(self.within[0] if len(self.within) == 1 else self.within)}"
        return f"affinity({self.key!r}{named})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PromptOwner(Chain):
    """Pick the owner of a prompt in the router's tree. Made by `prompt_owner`."""

    above: float
    within: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        named = f"above={self.above!r}"
        if self.within is not None:
            named += f", within={shown(self.within[0] if len(self.within) == 1 else self.within)}"
        return f"prompt_owner({named})"


Rule = Chain | Routing | Router
"""Anything that picks an instance, or none."""


@typed(PolicyError)
def pick(
    *,
    min: Operand | Sequence[Operand] | None = None,
    max: Operand | Sequence[Operand] | None = None,
    where: Operand | None = None,
    accept: Operand | None = None,
    within: str | Sequence[str] | None = None,
    ties: Ties = "first",
    among: int | None = None,
    temperature: float | None = None,
    seed: int | None = None,
) -> Pick:
    """Pick the instance with the least, or the most, of something.

    Parameters
    ----------
    min, max
        The key, or several keys in order, by which instances are compared; one of
        the two.
    where
        Only instances for which this condition holds.
    accept
        A condition on the picked instance; if it does not hold, the rule picks
        none.
    within
        Only instances of this pool, or of these pools.
    ties
        Which of several instances is picked whose keys are equal (see `Ties`).
    among
        How many instances are drawn at random, by the policy's seed, from those of
        `within` that can serve the request; only these are compared. None: all are.
        With ties the ``first`` is the one drawn first.
    temperature
        Draw the instance at random, with weights
        ``exp(-(key - least) / ((most - least) * temperature))``: the higher, the
        more even. 0: one of those with the least key, each as likely. Takes a
        single key. None: nothing is random.
    seed
        Where the sequence of draws begins, 0 if it is None; each rule has its own.

    Raises
    ------
    PolicyError
        If neither or both of `min` and `max` are given, or a part is of the
        wrong kind.

    Examples
    --------
    >>> from paceline import inst
    >>> pick(min=inst.kv_tokens, where=inst.answering_on_pace)
    pick(min=inst.kv_tokens, where=inst.answering_on_pace)
    >>> pick(min=inst.routed_requests, among=2)  # power of two choices
    pick(min=inst.routed_requests, among=2)
    """
    if (min is None) == (max is None):
        raise PolicyError(f"pick() must have one of min and max, was min={min!r}, max={max!r}")
    rule = Pick(
        min=() if min is None else _keys(min),
        max=() if max is None else _keys(max),
        where=None if where is None else lift(where),
        accept=None if accept is None else lift(accept),
        within=pools(within),
        ties=ties,
        among=among,
        temperature=temperature,
        seed=seed,
    )
    if among is not None:
        whole("among of pick()", among)
    _check_draws(rule)
    for name in ("min", "max"):
        for key in getattr(rule, name):
            if key.kind != "number":
                raise PolicyError(f"{name} of pick() must be a number, was {key!r}")
    for name in ("where", "accept"):
        part = getattr(rule, name)
        if part is not None and part.kind != "truth":
            raise PolicyError(f"{name} of pick() must be a condition, was {part!r}")
    return rule


def _check_draws(rule: Pick) -> None:
    """Refuse a temperature or a seed that no draw can have."""
    if rule.temperature is None:
        if rule.seed is not None:
            raise PolicyError(
                f"seed of pick() needs a temperature, without which nothing is drawn, was {rule!r}"
            )
        return
    if not 0 <= rule.temperature < math.inf:
        raise PolicyError(f"temperature of pick() must be a finite number, 0 or more, was {rule.temperature}")
    if len(rule.keys) != 1:
        raise PolicyError(f"temperature of pick() takes a single key, was {rule!r}")
    if rule.seed is not None and not 0 <= rule.seed < 2**64:
        raise PolicyError(f"seed of pick() must be a whole number from 0 to 2**64 - 1, was {rule.seed}")


@typed(PolicyError)
def prompt_owner(*, above: float, within: str | Sequence[str] | None = None) -> PromptOwner:
    """Pick the owner of the request's prompt in the router's tree of prompts.

    It is the owner of the last node that the prompt touches; see `PromptTree`. The
    router keeps a tree for each `within` that a rule names, of the prompts that are
    routed to these pools.

    Parameters
    ----------
    above
        The tree must have more than this share of the prompt, 0 to 1; else the rule
        picks none.
    within
        The pools of which the tree has the prompts, and that the picked instance must
        be in; None: all instances.

    Examples
    --------
    >>> from paceline import inst
    >>> first_of(prompt_owner(above=0.5), pick(min=inst.requests))
    first_of(prompt_owner(above=0.5), pick(min=inst.requests))
    """
    share("above of prompt_owner()", above)
    return PromptOwner(above=float(above), within=pools(within))


def _keys(given: Operand | Sequence[Operand]) -> tuple[Expr, ...]:
    several = given if isinstance(given, tuple | list) else (given,)
    if not several:
        raise PolicyError("pick() must have at least one key in min or max, had none")
    return tuple(lift(key) for key in several)


def first_of(*rules: Rule) -> FirstOf:
    """Take the first rule that picks an instance.

    Raises
    ------
    PolicyError
        If fewer than two are given, or one is no rule.

    Examples
    --------
    >>> from paceline import inst
    >>> first_of(pick(min=inst.requests, where=inst.waiting == 0), "fewest_tokens")
    first_of(pick(min=inst.requests, where=inst.waiting == 0), 'fewest_tokens')
    """
    if len(rules) < 2:
        raise PolicyError(f"first_of() must have two or more rules, had {len(rules)}")
    for rule in rules:
        is_rule(rule, "a rule of first_of()")
    return FirstOf(rules)


@typed(PolicyError)
def stay(*, when: Operand | None = None) -> Stay:
    """Keep the request where it is.

    Parameters
    ----------
    when
        Only if this holds; None: always.

    Examples
    --------
    >>> from paceline import inst, req
    >>> stay(when=inst.here.fits(req))
    stay(when=inst.here.fits(req))
    """
    if when is None:
        return Stay()
    expression = lift(when)
    if expression.kind != "truth":
        raise PolicyError(f"when of stay() must be a condition, was {expression!r}")
    return Stay(condition=expression)


@typed(PolicyError)
def affinity(
    key: AffinityKey, *, blocks: int | None = None, within: str | Sequence[str] | None = None
) -> Affinity:
    """Pick the instance to which the hash of a key assigns the request.

    Requests with the same key have the same instance. If an instance cannot serve
    a request or is in no pool of `within`, only the keys that were its own go
    elsewhere (rendezvous hashing). For a request without the key, the rule picks
    none.

    Parameters
    ----------
    key
        What the requests have in common: the trace's ``session`` or ``tenant``, or
        the ``prefix``, which is the first blocks of the prompt.
    blocks
        For a prefix, how many blocks of the trace count; a shorter prompt counts
        with all of its blocks.
    within
        Only instances of this pool, or of these pools.

    Raises
    ------
    PolicyError
        If a prefix has no `blocks`, or another key has.

    Examples
    --------
    >>> from paceline import inst
    >>> first_of(affinity("session").unless(inst.there.waiting > 8), pick(min=inst.requests))
    first_of(affinity('session').unless(inst.there.waiting > 8), pick(min=inst.requests))
    """
    if (key == "prefix") is not (blocks is not None):
        wanted = "must be how many blocks count" if key == "prefix" else f"must be left out for {key!r}"
        raise PolicyError(f"blocks of affinity() {wanted}, was {said(blocks)}")
    if blocks is not None:
        whole("blocks of affinity()", blocks)
    return Affinity(key=key, blocks=blocks, within=pools(within))


def is_rule(rule: object, what: str) -> None:
    """Refuse what is no rule; ``what`` names it in errors."""
    if isinstance(rule, str):
        if rule not in get_args(Routing):
            legal = ", ".join(get_args(Routing))
            raise PolicyError(f"{what} must be one of {legal}, or a rule such as pick(), was {said(rule)}")
    elif is_class_of_routers(rule):
        return
    elif not isinstance(rule, Chain) and (not callable(rule) or isinstance(rule, type | Expr)):
        raise PolicyError(
            f"{what} must be a rule (pick, first_of, stay), a name or a Python function, was {said(rule)}"
        )


def each(rule: object) -> Iterator[object]:
    """Yield a rule and all rules within it."""
    yield rule
    for part in _inner(rule):
        yield from each(part)


def _inner(rule: object) -> tuple[object, ...]:
    return rule.inner if isinstance(rule, Chain) else ()


def bounded(rule: object) -> None:
    """Refuse a rule of too many rules, or nested too deeply; its inner rules are checked already."""
    many = sum(1 for _ in each(rule))
    if many > MOST_RULES:
        raise PolicyError(
            f"a rule must be made of at most {MOST_RULES} rules (each counted as often as it is "
            f"used), was {many}"
        )
    if (levels := _levels(rule)) > MOST_RULE_LEVELS:
        raise PolicyError(f"a rule must be nested in at most {MOST_RULE_LEVELS} levels, was {levels}")


def _levels(rule: object) -> int:
    return 1 + max(map(_levels, _inner(rule)), default=0)
