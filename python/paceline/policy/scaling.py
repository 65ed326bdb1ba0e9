"""Sizes of pools, as monitors set them: how many instances are wanted, and how fast that changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from paceline._arguments import typed, typed_fields
from paceline._check import said
from paceline.errors import PolicyError
from paceline.policy.checks import duration, whole
from paceline.policy.expressions.namespaces import inst
from paceline.policy.expressions.scope import Scope, condition, number
from paceline.policy.expressions.tree import Expr, Operand, lift
from paceline.policy.expressions.wire import spelled
from paceline.policy.flips import Flip
from paceline.policy.rules import Pick, pick
from paceline.policy.value import Value, shown

__all__ = ["Scale", "ScalingLimit", "ScalingRules", "scale"]


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class ScalingLimit(Value):
    """The most by which the size of a pool changes within some time.

    Parameters
    ----------
    per_s
        The time in seconds.
    instances
        The most instances.
    percent
        The most in percent of the instances at the beginning of the time; what is added is
        rounded up, what remains is rounded down.

    Raises
    ------
    PolicyError
        If not exactly one of `instances` and `percent` is given.

    Examples
    --------
    >>> ScalingLimit(per_s=15.0, instances=4)
    ScalingLimit(per_s=15.0, instances=4)
    """

    per_s: float
    instances: int | None = None
    percent: int | None = None

    def __post_init__(self) -> None:
        duration("per_s of ScalingLimit", self.per_s)
        if (self.instances is None) == (self.percent is None):
            raise PolicyError(f"a ScalingLimit must have one of instances and percent, was {self!r}")
        whole("the amount of a ScalingLimit", self.amount, least=0)

    @property
    def amount(self) -> int:
        """Instances, or percent."""
        return (self.percent or 0) if self.instances is None else self.instances

    def to_wire(self, ticks_per_s: float) -> dict[str, Any]:
        """Return the limit as the engine reads it."""
        kind = "percent" if self.instances is None else "instances"
        return {"per": round(self.per_s * ticks_per_s), "by": {kind: self.amount}}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError, but=("limits",))
class ScalingRules(Value):
    """When and how fast a pool grows, or shrinks.

    Parameters
    ----------
    window_s
        Seconds in which every size that was wanted has to agree: a pool grows to the smallest
        of them, and shrinks to the largest. 0: the present one decides.
    limits
        The most by which it changes; none: at once.
    select
        Which of several limits holds: the one that allows the largest change (``most``), or
        the smallest (``least``).

    Examples
    --------
    >>> ScalingRules(window_s=300.0)
    ScalingRules(window_s=300.0)
    """

    window_s: float = 0.0
    limits: Sequence[ScalingLimit] = ()
    select: Literal["most", "least"] = "most"

    def __post_init__(self) -> None:
        duration("window_s of ScalingRules", self.window_s)
        if not isinstance(self.limits, Sequence):
            raise PolicyError(
                f"limits of ScalingRules must be a list of ScalingLimit, was {said(self.limits)}"
            )
        object.__setattr__(self, "limits", tuple(self.limits))
        for limit in self.limits:
            _is_limit(limit)

    def to_wire(self, ticks_per_s: float) -> dict[str, Any]:
        """Return the rules as the engine reads them."""
        limits = [limit.to_wire(ticks_per_s) for limit in self.limits]
        return {"window": round(self.window_s * ticks_per_s), "limits": limits, "select": self.select}


def _is_limit(limit: object) -> None:
    if not isinstance(limit, ScalingLimit):
        raise PolicyError(f"limits of ScalingRules must be of ScalingLimit, was {said(limit)}")


_AT_ONCE = ScalingRules()


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Scale(Value):
    """Set the size of a pool to the value of an expression. Made by `scale`."""

    wanted: Expr
    pool: str
    off: str
    start: Pick
    stop: Pick
    when: Expr | None = None
    least: int = 1
    most: int | None = None
    averaged_s: float = 0.0
    up: ScalingRules = field(default_factory=ScalingRules)
    down: ScalingRules = field(default_factory=ScalingRules)

    def __repr__(self) -> str:
        named = [f"{name}={getattr(self, name)!r}" for name in ("pool", "off")]
        plain: dict[str, object] = {
            **{"when": None, "least": 1, "most": None, "averaged_s": 0.0},
            **{"up": _AT_ONCE, "down": _AT_ONCE, "start": _LOWEST, "stop": _EMPTIEST},
        }
        for name, default in plain.items():
            value = getattr(self, name)
            if repr(value) != repr(default):
                named.append(f"{name}={shown(value)}")
        return f"scale({shown(self.wanted)}, {', '.join(named)})"

    @property
    def flips(self) -> tuple[Flip, Flip]:
        """What it may do: an instance starts, or an instance stops."""
        return (
            Flip(replace(self.start, within=(self.off,)), self.pool, 0),
            Flip(replace(self.stop, within=(self.pool,)), self.off, self.least),
        )


_LOWEST = pick(min=inst.index)
_EMPTIEST = pick(min=[inst.requests, -inst.index])


@typed(PolicyError)
def scale(
    wanted: Operand,
    *,
    pool: str,
    off: str,
    when: Operand | None = None,
    least: int = 1,
    most: int | None = None,
    averaged_s: float = 0.0,
    up: ScalingRules = _AT_ONCE,
    down: ScalingRules = _AT_ONCE,
    start: Pick = _LOWEST,
    stop: Pick = _EMPTIEST,
) -> Scale:
    """Set how many instances a pool has, by instances of another pool.

    The size of a pool counts the instances in it and on their way there. An instance that is
    added comes from `off`; one that is removed joins `off`. If the policy's `Pools` have pools
    for instances on their way (``leaving``), an instance goes by them: a delay there is the
    time to start, a condition such as ``inst.requests == 0`` lets it finish its requests.

    Parameters
    ----------
    wanted
        The size that is wanted: an expression over `cluster`, rounded up. If it is not a number,
        such as 0 / 0, nothing changes.
    pool, off
        The pool whose size is set, and the pool that gives and takes instances.
    when
        A condition without which nothing is read and nothing changes; None: always.
    least, most
        Bounds of the size; None: all instances of both pools.
    averaged_s
        Seconds over which the values of `wanted` at the runs of the monitor are averaged; 0: the
        present value counts.
    up, down
        When and how fast the pool grows, and shrinks.
    start
        Which instances of `off` are taken first.
    stop
        Which instances leave first: those that are on their way to the pool, and then those
        in it, each in the order of this rule.

    Raises
    ------
    PolicyError
        If an expression reads what a monitor cannot see, `least` exceeds `most`, or `start` or
        `stop` is no pick() of keys alone.

    Examples
    --------
    >>> from paceline import cluster, inst
    >>> waiting = cluster.sum(inst.waiting, within="serving")
    >>> scale(waiting / 4, pool="serving", off="off", most=8, down=ScalingRules(window_s=300.0)).most
    8
    """
    whole("least of scale()", least, least=0)
    if most is not None:
        whole("most of scale()", most, least=max(1, least))
    duration("averaged_s of scale()", averaged_s)
    if spelled(pool) == spelled(off):
        raise PolicyError(f"off of scale() must be another pool than {pool!r}, was the same")
    for name, rule in (("start", start), ("stop", stop)):
        parts = (rule.within, rule.accept, rule.among, rule.temperature)
        if parts != (None, None, None, None) or rule.ties != "first":
            raise PolicyError(
                f"{name} of scale() must be a pick() by min or max, and a where, alone, was {rule!r}"
            )
        rule.checked(f"{name} of scale()", Scope.MONITOR)
    scope = Scope.ASKED_BY_MONITOR
    return Scale(
        wanted=number(wanted, "what scale() wants", scope),
        pool=spelled(pool),
        off=spelled(off),
        when=None if when is None else condition(lift(when), "when of scale()", scope),
        least=least,
        most=most,
        averaged_s=averaged_s,
        up=up,
        down=down,
        start=start,
        stop=stop,
    )
