"""Rules that route a request to an instance."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from paceline._arguments import typed
from paceline._check import said
from paceline.errors import PolicyError
from paceline.policy.checks import share
from paceline.policy.expressions.namespaces import pools
from paceline.policy.expressions.scope import Scope, condition, number
from paceline.policy.expressions.tree import Expr, Operand, lift
from paceline.policy.limits import MOST_RULE_LEVELS, MOST_RULES
from paceline.policy.value import Value, shown

__all__ = [
    "FirstOf",
    "Pick",
    "PromptOwner",
    "Router",
    "Routing",
    "Rule",
    "Stay",
    "Unless",
    "first_of",
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

Router = Callable[..., Any]
"""A Python function that picks an instance; the guide on policies says what it is called with."""


class Chain(Value):
    """A rule that `unless` can put a condition on."""

    __slots__ = ()

    def unless(self, when: Operand) -> Unless:
        """Return a rule that picks no instance if a condition holds for the one that this rule picks.

        Parameters
        ----------
        when
            A condition on `inst.here`, the present instance, and `inst.there`,
            the one picked.
        """
        return Unless(self, lift(when))  # type: ignore[arg-type]  # each Chain is a Rule


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Pick(Chain):
    """Pick the best of the instances that a condition allows. Made by `pick`."""

    min: Any = ()
    max: Any = ()
    where: Expr | None = None
    accept: Expr | None = None
    within: tuple[str, ...] | None = None
    temperature: float | None = None
    seed: int | None = None

    def __repr__(self) -> str:
        named = []
        for name in ("min", "max", "within", "where", "accept", "temperature", "seed"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, tuple) and not value):
                single = isinstance(value, tuple) and len(value) == 1
                named.append(f"{name}={shown(value[0] if single else value)}")
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
    def keys(self) -> tuple[Expr, ...]:
        """The keys of which the picked instance has the smallest values."""
        return self.min or tuple(-key for key in self.max)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FirstOf(Chain):
    """Take the first rule that picks an instance. Made by `first_of`."""

    rules: tuple[Rule, ...]

    def __post_init__(self) -> None:
        _bounded(self)

    def __repr__(self) -> str:
        return f"first_of({', '.join(shown(rule) for rule in self.rules)})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unless(Chain):
    """Pick no instance if a condition holds. Made by the ``unless`` of another rule."""

    of: Rule
    when: Expr

    def __post_init__(self) -> None:
        _bounded(self)

    def __repr__(self) -> str:
        return f"{shown(self.of)}.unless({self.when!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Stay(Chain):
    """Keep the request where it is. Made by `stay`."""

    when: Expr | None = None

    def __repr__(self) -> str:
        return "stay()" if self.when is None else f"stay(when={self.when!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class PromptOwner(Chain):
    """Pick the owner of a prompt in the router's tree. Made by `prompt_owner`."""

    above: float

    def __repr__(self) -> str:
        return f"prompt_owner(above={self.above!r})"


Rule = Pick | FirstOf | Unless | Stay | PromptOwner | Routing | Router
"""Anything that picks an instance, or none."""


@typed(PolicyError)
def pick(
    *,
    min: Operand | Sequence[Operand] | None = None,
    max: Operand | Sequence[Operand] | None = None,
    where: Operand | None = None,
    accept: Operand | None = None,
    within: str | Sequence[str] | None = None,
    temperature: float | None = None,
    seed: int | None = None,
) -> Pick:
    """Pick the instance with the least, or the most, of something.

    Parameters
    ----------
    min, max
        The key, or several keys in order, by which instances are compared; one of
        the two. Ties go to the lowest index.
    where
        Only instances for which this condition holds.
    accept
        A condition on the picked instance; if it does not hold, the rule picks
        none.
    within
        Only instances of this pool, or of these pools.
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
    """
    if (min is None) == (max is None):
        raise PolicyError(f"pick() must have one of min and max, was min={min!r}, max={max!r}")
    rule = Pick(
        min=() if min is None else _keys(min),
        max=() if max is None else _keys(max),
        where=None if where is None else lift(where),
        accept=None if accept is None else lift(accept),
        within=pools(within),
        temperature=temperature,
        seed=seed,
    )
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
def prompt_owner(*, above: float) -> PromptOwner:
    """Pick the owner of the request's prompt in the router's tree of prompts.

    It is the owner of the last node that the prompt touches; see `PromptTree`.

    Parameters
    ----------
    above
        The tree must have more than this share of the prompt, 0 to 1; else the rule
        picks none.

    Examples
    --------
    >>> from paceline import inst
    >>> first_of(prompt_owner(above=0.5), pick(min=inst.requests))
    first_of(prompt_owner(above=0.5), pick(min=inst.requests))
    """
    share("above of prompt_owner()", above)
    return PromptOwner(above=float(above))


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
    return Stay(when=expression)


def is_rule(rule: object, what: str) -> None:
    """Refuse what is no rule; ``what`` names it in errors."""
    if isinstance(rule, str):
        if rule not in get_args(Routing):
            legal = ", ".join(get_args(Routing))
            raise PolicyError(f"{what} must be one of {legal}, or a rule such as pick(), was {said(rule)}")
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
    if isinstance(rule, FirstOf):
        return rule.rules
    return (rule.of,) if isinstance(rule, Unless) else ()


def _bounded(rule: object) -> None:
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


def check(rule: object, what: str, *, arrival: bool) -> None:
    """Check a rule for its moment: on arrival, or when a request may migrate.

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
        elif isinstance(part, Unless):
            scope = Scope.PICKED_ON_ARRIVAL if arrival else Scope.PICKED
            condition(part.when, f"unless() in {what}", scope)
        elif isinstance(part, Stay):
            if arrival:
                raise PolicyError(
                    f"{what} must not have stay(): a request that arrives is on no instance yet"
                )
            if part.when is not None:
                condition(part.when, f"stay() in {what}", Scope.STAY)
        elif isinstance(part, FirstOf):
            _reached(part, what)
    if arrival and not always(rule):
        last = rule.rules[-1] if isinstance(rule, FirstOf) else rule
        raise PolicyError(
            f"{what} must always pick an instance, but {shown(last)} may pick none; end with an "
            f"alternative without where and accept: first_of({shown(rule)}, pick(min=inst.requests))"
        )


def _reached(rule: FirstOf, what: str) -> None:
    for number_, part in enumerate(rule.rules[:-1], start=1):
        if always(part) and getattr(part, "within", None) is None and not callable(part):
            raise PolicyError(
                f"{what} never reaches rule {number_ + 1} of {shown(rule)}: {shown(part)} always picks one"
            )


def always(rule: object) -> bool:
    """Whether a rule picks an instance in every state of the cluster."""
    if isinstance(rule, Pick):
        return rule.where is None and rule.accept is None
    if isinstance(rule, FirstOf):
        return any(always(part) for part in rule.rules)
    if isinstance(rule, Unless | PromptOwner):
        return False
    return rule.when is None if isinstance(rule, Stay) else True
