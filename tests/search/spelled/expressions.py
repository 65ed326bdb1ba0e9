"""Expressions of the public API from those that the engine reads.

Where the engine accepts a condition or a label as a number, the public API needs an explicit number:
`where(condition, 1, 0)`, or one number for each name of a phase, a tenant or a pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from paceline.errors import PolicyError
from paceline.policy import block, cluster, inst, oracle, req
from paceline.policy.expressions.fields import FIELDS
from paceline.policy.expressions.kinds import PHASES
from paceline.policy.expressions.syntax import COMPARISONS
from paceline.policy.expressions.tree import Const, Expr, lift, op
from paceline.policy.expressions.wire import Names

Wire = dict[str, Any]
CLASSES = ("first", "second", "third")
COLUMNS = ("early", "late")
GAUGES = ("high", "low")
NAMES = Names(
    tenants=("ann", "bob", "eve"),
    pools=("left", "middle", "right"),
    classes=CLASSES,
    columns=COLUMNS,
    gauges=GAUGES,
)
_SPACES: dict[str, Any] = {
    "req": req,
    "inst": inst,
    "here": inst.here,
    "there": inst.there,
    "oracle": oracle,
    "block": block,
}
_BY_WIRE = {(space, meaning.wire): meaning for (space, _), meaning in FIELDS.items()}
_LABELS: dict[str, tuple[str, ...]] = {
    "phase": PHASES,
    "tenant": tuple(NAMES.tenants),
    "role": tuple(NAMES.pools),
}


def spell(wire: Wire, accumulated: Sequence[Expr] = ()) -> Expr:
    """Return the expression, of any kind, with the accumulators that it may read."""
    if "const" in wire:
        value = wire["const"]
        return lift(int(value) if float(value).is_integer() else value)
    if wire.get("field") == "group.accumulated":
        if wire["class"] >= len(accumulated):
            raise PolicyError(f"an expression must read an accumulator that there is, read {wire['class']}")
        return accumulated[wire["class"]]
    if "field" in wire:
        return _field(wire)
    if "over" in wire:
        truth = wire["over"] in ("any", "all", "count")
        of = condition(wire["of"]) if truth else number(wire["of"])
        return getattr(cluster, wire["over"])(of, within=pools(wire["within"]))  # type: ignore[no-any-return]
    name, args = wire["op"], wire["args"]
    if name in ("and", "or"):
        # Both take any number of conditions, and operators take two.
        return reduce(lambda left, right: op(name, left, right), map(condition, args))
    if name == "not":
        return op(name, condition(args[0]))
    if name == "if":
        return op(name, condition(args[0]), number(args[1]), number(args[2]))
    assert name in COMPARISONS or name not in ("and", "or")
    return op(name, *(number(each, accumulated) for each in args))


def number(wire: Wire, accumulated: Sequence[Expr] = ()) -> Expr:
    """Return the expression as a number."""
    spelled = spell(wire, accumulated)
    if spelled.kind == "truth":
        return op("if", spelled, 1, 0)
    if spelled.kind in _LABELS:
        names = _LABELS[spelled.kind]
        found: Expr = Const(len(names) - 1)
        for code in range(len(names) - 2, -1, -1):
            found = op("if", spelled == names[code], code, found)
        return found
    return spelled


def condition(wire: Wire, accumulated: Sequence[Expr] = ()) -> Expr:
    """Return the expression as a condition."""
    spelled = spell(wire, accumulated)
    return spelled if spelled.kind == "truth" else op("ne", number(wire, accumulated), 0)


def pools(within: list[int] | None) -> tuple[str, ...] | None:
    """Return the names of pools."""
    return None if within is None else tuple(NAMES.pools[code] for code in within)


def _field(wire: Wire) -> Expr:
    prefix, _, name = wire["field"].partition(".")
    space = "inst" if prefix in ("here", "there") else prefix
    meaning = _BY_WIRE[space, name]
    found = getattr(_SPACES[prefix], meaning.name)
    if meaning.takes == "request":
        found = found(req)
    elif meaning.takes == "column":
        found = found(COLUMNS[wire["class"]])
    elif meaning.takes == "gauge":
        found = found(GAUGES[wire["class"]])
    elif meaning.takes == "class":
        found = found(CLASSES[wire["class"]])
    assert isinstance(found, Expr)
    return found
