"""How requests are ranked on an instance, and when a better-ranked one displaces others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from paceline._arguments import typed, typed_fields
from paceline._check import said
from paceline.errors import PolicyError
from paceline.policy.checks import duration, whole
from paceline.policy.expressions.namespaces import req
from paceline.policy.expressions.scope import Scope, condition, drifting, number
from paceline.policy.expressions.tree import Expr, Operand
from paceline.policy.expressions.wire import Names, to_wire
from paceline.policy.value import Value

__all__ = [
    "Class",
    "Displace",
    "Keys",
    "Levels",
    "Quantum",
    "Refresh",
    "check_classes",
    "keys_of",
    "ranked",
    "refuse_drift",
]

MOST_KEYS = 3
"""The most keys of a class; requests with equal keys are ranked by arrival."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
@typed_fields(PolicyError, but=("then",))
class Quantum(Value):
    """Rank by quanta used up, fewest first, then by when a request joined its class.

    Parameters
    ----------
    tokens
        Tokens of a quantum, counted from when a request enters its class.
    then
        Keys that rank requests with equal quanta; by default when each joined its
        class.

    Raises
    ------
    PolicyError
        If `tokens` is not at least 1, or a key cannot rank requests.

    Examples
    --------
    >>> Quantum(500)
    Quantum(500)
    """

    positional: ClassVar = ("tokens",)

    tokens: int
    then: Expr | tuple[Expr, ...] = (req.joined,)

    def __post_init__(self) -> None:
        whole("tokens of a Quantum", self.tokens)
        then = keys_of(self.then, "then of a Quantum")
        if len(then) >= MOST_KEYS:
            raise PolicyError(f"then of a Quantum must be at most {MOST_KEYS - 1} keys, were {len(then)}")
        object.__setattr__(self, "then", then)

    @property
    def tiebreaks(self) -> tuple[Expr, ...]:
        """The keys that rank requests with equal quanta."""
        return keys_of(self.then, "then of a Quantum")

    @property
    def keys(self) -> tuple[Expr, ...]:
        """The keys it stands for."""
        return (req.quanta, *self.tiebreaks)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
@typed_fields(PolicyError, but=("entry", "then", "promote"))
class Levels(Value):
    """Rank by levels, through which a request sinks as it runs, then by other keys.

    At the end of a step a request moves to the next level if it has run for longer
    at its own than the quantum of that, which doubles from level to level. Its time
    then counts from 0 again.

    Parameters
    ----------
    first_s
        Seconds of the first level's quantum.
    entry
        The level at which a request enters as it comes to an instance.
    then
        Keys that rank requests of a level; ties go to the earlier arrival.
    promote
        The condition on which a request that does not run goes to the first level.
    every
        Steps of the instance after which that condition is looked at.

    Raises
    ------
    PolicyError
        If a parameter is out of range or reads a field that a queue cannot see.

    Examples
    --------
    >>> Levels(0.01, promote=req.waiting_time >= 3)
    Levels(0.01, entry=0, promote=req.waiting_time >= 3)
    """

    positional: ClassVar = ("first_s",)

    first_s: float
    entry: Operand = 0
    then: Expr | tuple[Expr, ...] = ()
    promote: Operand | None = None
    every: int = 1000

    def __post_init__(self) -> None:
        duration("first_s of Levels", self.first_s, least=1e-9)
        object.__setattr__(self, "entry", number(self.entry, "entry of Levels", Scope.QUEUE))
        none = isinstance(self.then, tuple) and not self.then
        then = () if none else keys_of(self.then, "then of Levels")
        if len(then) >= MOST_KEYS:
            raise PolicyError(f"then of Levels must be at most {MOST_KEYS - 1} keys, were {len(then)}")
        object.__setattr__(self, "then", then)
        if self.promote is not None:
            object.__setattr__(self, "promote", condition(self.promote, "promote of Levels", Scope.QUEUE))
        whole("every of Levels", self.every)
        fields = [part for one in (self.entry, self.promote) if isinstance(one, Expr) for part in one.walk()]
        if any(req.level.same(part) for part in fields):
            raise PolicyError("entry and promote of Levels must not read req.level, which they set")

    @property
    def keys(self) -> tuple[Expr, ...]:
        """The keys it stands for."""
        return (req.level, *(self.then if isinstance(self.then, tuple) else (self.then,)))

    def to_wire(self, names: Names, ticks_per_s: float) -> dict[str, object]:
        """Return it as the engine reads it."""
        assert isinstance(self.entry, Expr)
        return {
            "first": round(self.first_s * ticks_per_s),
            "entry": to_wire(self.entry, names),
            "promote": to_wire(self.promote, names) if isinstance(self.promote, Expr) else None,
            "every": self.every,
        }


Keys = Expr | Sequence[Expr | float] | Quantum | Levels
"""What requests are ranked by, smallest first."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
@typed_fields(
    PolicyError,
    but=(
        "when",
        "order",
    ),
)
class Class(Value):
    """A class of requests; requests of an earlier class rank before those of a later one.

    A request is in the first class of which the condition holds, and changes its
    class when that changes.

    Parameters
    ----------
    name
        The name by which `inst.requests_in` refers to it.
    when
        The condition for a request to be in the class; None: all requests that
        are in no earlier class.
    hold
        Tokens that a request generates before it may leave the class; 0: it
        leaves as soon as the condition no longer holds.
    order
        The keys that rank requests of the class; None: the scheduler's order.
    hold_steps
        Steps that run a request before it may leave the class; 0: none. A step may
        run a request and yield no token, if it computes a part of its prompt.

    Raises
    ------
    PolicyError
        If the condition or a key reads a field that a queue cannot see, or a
        value is out of range.

    Examples
    --------
    >>> Class("starving", when=req.waiting_time > 120)
    Class('starving', when=req.waiting_time > 120)
    """

    positional: ClassVar = ("name",)

    name: str
    when: Operand | None = None
    hold: int = 0
    order: Keys | None = None
    hold_steps: int = 0

    def __post_init__(self) -> None:
        name: object = self.name
        if not isinstance(name, str) or not name:
            raise PolicyError(f"name of a Class must be a string that is not empty, was {name!r}")
        what = f"Class {self.name!r}"
        if self.when is not None:
            object.__setattr__(self, "when", condition(self.when, f"when of {what}", Scope.QUEUE))
        whole(f"hold of {what}", self.hold, least=0)
        whole(f"hold_steps of {what}", self.hold_steps, least=0)
        if self.order is not None:
            object.__setattr__(self, "order", ranked(self.order, f"order of {what}"))


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Refresh(Value):
    """How often keys are evaluated that change with time or with each token.

    Parameters
    ----------
    steps
        Steps of the instance between two evaluations; None: not by steps.
    seconds
        Seconds between two evaluations; None: not by time.

    Raises
    ------
    PolicyError
        If neither is given, or one is out of range.

    Examples
    --------
    >>> Refresh(seconds=0.5)
    Refresh(seconds=0.5)
    """

    steps: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.steps is None and self.seconds is None:
            raise PolicyError("a Refresh must have steps or seconds, had neither: Refresh(steps=1)")
        if self.steps is not None:
            whole("steps of a Refresh", self.steps)
        if self.seconds is not None:
            duration("seconds of a Refresh", self.seconds, least=1e-9)

    @typed(PolicyError)
    def to_wire(self, ticks_per_s: float) -> dict[str, int]:
        """Return it as the engine reads it."""
        return {"steps": self.steps or 0, "ticks": round((self.seconds or 0.0) * ticks_per_s)}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError, but=("when",))
class Displace(Value):
    """Preempt worse-ranked running requests to admit a better-ranked one that does not fit.

    Parameters
    ----------
    when
        A condition on the instance; if it does not hold, the best-ranked waiting
        request waits for room. None: displacement is always allowed.
    most
        The most requests displaced in one step; None: no limit.

    Raises
    ------
    PolicyError
        If the condition reads more than the instance, or `most` is below 1.

    Examples
    --------
    >>> from paceline import inst
    >>> Displace(when=inst.kv_usage >= 0.9)
    Displace(when=inst.kv_usage >= 0.9)
    """

    when: Operand | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        if self.when is not None:
            object.__setattr__(self, "when", condition(self.when, "when of a Displace", Scope.DISPLACE))
        if self.most is not None:
            whole("most of a Displace", self.most)

    @typed(PolicyError)
    def to_wire(self, names: Names) -> dict[str, object]:
        """Return it as the engine reads it."""
        when = to_wire(self.when, names) if isinstance(self.when, Expr) else None
        return {"kind": "displace", "when": when, "most": self.most or 0}


def ranked(order: Any, what: str) -> Expr | tuple[Expr, ...] | Quantum | Levels:  # noqa: ANN401 - checked here
    """Check the keys that rank requests; return a single key as itself."""
    if isinstance(order, Quantum | Levels):
        return order
    keys = keys_of(order, what)
    return keys[0] if len(keys) == 1 else keys


def keys_of(order: Any, what: str) -> tuple[Expr, ...]:  # noqa: ANN401 - checked here
    """Return the keys of an order.

    Raises
    ------
    PolicyError
        If a key is no number or reads a field that a queue cannot see, or there
        are too many keys.
    """
    if isinstance(order, Quantum | Levels):
        return order.keys
    given = tuple(order) if isinstance(order, tuple | list) else (order,)
    if not 1 <= len(given) <= MOST_KEYS:
        raise PolicyError(f"{what} must be 1 to {MOST_KEYS} keys, were {len(given)}")
    return tuple(number(key, what, Scope.QUEUE) for key in given)


def refuse_drift(keys: Sequence[Expr], what: str, refresh: Refresh | None) -> None:
    """Refuse keys that change from step to step where no refresh says how often they are evaluated."""
    for key in keys:
        field = drifting(key)
        if field is not None and refresh is None:
            raise PolicyError(
                f"{what} must not change from step to step unless the scheduler says how often it is "
                f"evaluated: {field!r} in {key!r} drifts. Give refresh=Refresh(steps=...) or "
                f"Refresh(seconds=...), or make it change in steps: {field!r} // 100, ilog2({field!r})"
            )


def check_classes(classes: Sequence[object]) -> None:
    """Check `classes`: of different names, and all but the last with a condition.

    Raises
    ------
    PolicyError
        Names the class, and the rule.
    """
    names = set()
    for place, each in enumerate(classes):
        if not isinstance(each, Class):
            raise PolicyError(f"classes must be Class(...), was {said(each)}")
        if each.name in names:
            raise PolicyError(f"classes must have different names, was {each.name!r} twice")
        names.add(each.name)
        if each.when is None and place < len(classes) - 1:
            raise PolicyError(f"only the last of classes may have no condition: {each!r} takes every request")
