"""Expressions of a policy, from the engine's configuration."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any, Protocol

Expr = dict[str, Any]
SortKey = tuple[bool, float]

_TIMELY = {"req.age_s", "req.waiting_s", "req.idle_steps", "req.attained_s", "req.slack_s"}


class Scope(Protocol):
    """The moment of an evaluation, and the values of fields."""

    @property
    def now(self) -> int:
        """The moment, in ticks."""
        ...

    def field(self, name: str, position: int | None) -> float:
        """Return a field; ``position`` is the class, where a field is of one."""
        ...

    def each(self, within: list[int] | None) -> Iterator[Scope]:
        """Go over the instances of some roles, each in turn as the candidate."""
        ...


def evaluate(expr: Expr, scope: Scope) -> float:
    """Evaluate an expression; a condition is 1 if it holds, else 0.

    Examples
    --------
    >>> evaluate({"op": "floordiv", "args": [{"const": 7}, {"const": 2}]}, scope=None)
    3.0
    """
    if "const" in expr:
        return float(expr["const"])
    if "field" in expr:
        return float(scope.field(expr["field"], expr.get("class")))
    if "over" in expr:
        return over(expr["over"], [evaluate(expr["of"], one) for one in scope.each(expr.get("within"))])
    return apply(expr["op"], [evaluate(arg, scope) for arg in expr["args"]])


def holds(expr: Expr | None, scope: Scope) -> bool:
    """Whether a condition holds; no condition always does."""
    return expr is None or evaluate(expr, scope) != 0.0


def sort_key(value: float) -> SortKey:
    """Return what orders a value among others: NaN is larger than any number."""
    return (True, 0.0) if math.isnan(value) else (False, value)


def sort_keys(exprs: list[Expr], scope: Scope) -> tuple[SortKey, ...]:
    """Evaluate several expressions by which something is ordered."""
    return tuple(sort_key(evaluate(expr, scope)) for expr in exprs)


def timely(expr: Expr | None) -> bool:
    """Whether an expression's value can change with time alone."""
    if expr is None:
        return False
    return expr.get("field") in _TIMELY or any(timely(part) for part in expr.get("args", []))


def over(how: str, found: list[float]) -> float:
    """Return an aggregate of values over instances; of no instance it is 0, and ``all`` holds."""
    if how == "any":
        return float(any(found))
    if how == "all":
        return float(all(found))
    if how == "count":
        return float(sum(value != 0.0 for value in found))
    if not found:
        return 0.0
    total = 0.0
    for value in found:
        total += value
    return {"sum": total, "mean": total / len(found), "min": min(found), "max": max(found)}[how]


def apply(op: str, args: list[float]) -> float:
    """Apply an operator."""
    first, *rest = args
    if op == "neg":
        return -first
    if op == "abs":
        return abs(first)
    if op == "ilog2":
        return float(math.frexp(first)[1] - 1) if 1 <= first < math.inf else 0.0
    if op == "not":
        return float(first == 0.0)
    if op == "if":
        return rest[0] if first != 0.0 else rest[1]
    if op in ("min", "max"):
        return min(args) if op == "min" else max(args)
    if op in ("and", "or"):
        return float(all(args) if op == "and" else any(args))
    for other in rest:
        first = _of_two(op, first, other)
    return first


def _of_two(op: str, left: float, right: float) -> float:
    if op in ("div", "floordiv"):
        quotient = _divide(left, right)
        return float(math.floor(quotient)) if op == "floordiv" and math.isfinite(quotient) else quotient
    return float(_OPERATORS[op](left, right))


_OPERATORS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}


def _divide(left: float, right: float) -> float:
    if right != 0.0:
        return left / right
    if left == 0.0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)
