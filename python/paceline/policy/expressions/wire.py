"""The wire format of expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from paceline._toml import close_matches
from paceline.errors import PolicyError
from paceline.policy.expressions.accumulated import Accumulated
from paceline.policy.expressions.fields import meaning_of
from paceline.policy.expressions.kinds import PHASES, Kind
from paceline.policy.expressions.tree import Const, Expr, Field, Op, Over

__all__ = ["Names", "spelled", "to_wire"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The codes that stand for names during one replay.

    Attributes
    ----------
    tenants, pools, classes, columns, gauges
        Names in the order of their codes.
    bounds
        The objectives, in seconds, by name.
    accumulators
        The accumulators of the scheduler, in the order of their numbers.
    """

    tenants: Sequence[str] = ()
    pools: Sequence[str] = ()
    classes: Sequence[str] = ()
    columns: Sequence[str] = ()
    gauges: Sequence[str] = ()
    bounds: Mapping[str, float] = field(default_factory=dict)
    accumulators: Sequence[Accumulated] = ()

    def __hash__(self) -> int:
        lists = (self.tenants, self.pools, self.classes, self.columns, self.gauges)
        return hash((tuple(map(tuple, lists)), frozenset(self.bounds.items())))

    def code(self, kind: Kind, name: str) -> int:
        """Return the code of a name; refuse an unknown one, but for a tenant."""
        known = {"phase": PHASES, "tenant": self.tenants, "role": self.pools}[kind]
        if kind == "tenant" and name not in known:
            # A window of a trace may lack a tenant: no request has this code.
            return _ABSENT
        if kind == "role":
            name = spelled(name)
        return _index({"phase": "phase", "tenant": "tenant", "role": "pool"}[kind], known, name)

    def pool_codes(self, names: Sequence[str] | None) -> list[int] | None:
        """Return the codes of pools; None stays None, and stands for all instances."""
        return None if names is None else [self.code("role", name) for name in names]


_ABSENT: Final = -1
"""The code of a tenant that no request has."""


def spelled(pool: str) -> str:
    """Return the name of a pool as it is kept: ``a->b`` is ``a→b``."""
    return pool.replace("->", "→")


def _index(what: str, known: Sequence[str], name: str) -> int:
    if name in known:
        return list(known).index(name)
    there = close_matches(name, known) if known else f"; there is no {what} at all"
    raise PolicyError(f"there is no {what} {name!r}{there}")


def to_wire(expression: Expr, names: Names) -> dict[str, Any]:
    """Return an expression as the engine reads it.

    Raises
    ------
    PolicyError
        If it names an unknown tenant, pool, class or objective.
    """
    if isinstance(expression, Const):
        assert not isinstance(expression.value, str), "a name is coded by the field that it is compared with"
        return {"const": float(expression.value)}
    if isinstance(expression, Accumulated):
        known = [each.key for each in names.accumulators]
        return {"field": "group.accumulated", "class": known.index(expression.key)}
    if isinstance(expression, Field):
        return _field(expression, names)
    if isinstance(expression, Over):
        within = names.pool_codes(expression.within)
        return {"over": expression.over, "of": to_wire(expression.of, names), "within": within}
    assert isinstance(expression, Op)
    args = [
        {"const": float(names.code(expression.args[0].kind, arg.value))}
        if isinstance(arg, Const) and isinstance(arg.value, str)
        else to_wire(arg, names)
        for arg in expression.args
    ]
    return {"op": expression.op, "args": args}


def _field(read: Field, names: Names) -> dict[str, Any]:
    if read.space == "slo":
        if read.name not in names.bounds:
            there = ", ".join(names.bounds) or "none"
            raise PolicyError(
                f"{read!r} needs a policy with slo=SLO({read.name}=...); the bounds there are: {there}"
            )
        return {"const": float(names.bounds[read.name])}
    meaning = meaning_of(read.space, read.name)
    prefix = {"inst.here": "here", "inst.there": "there"}.get(read.space, read.space)
    wire: dict[str, Any] = {"field": f"{prefix}.{meaning.wire}"}
    if read.argument is not None:
        known = {"column": names.columns, "class": names.classes, "gauge": names.gauges}
        wire["class"] = _index(meaning.takes, known[meaning.takes], read.argument)
    return wire
