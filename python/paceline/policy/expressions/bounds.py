"""The smallest and the largest value that an expression can have, as far as its text says."""

from __future__ import annotations

import itertools
import math

from paceline.policy.expressions.tree import Const, Expr, Op

__all__ = ["bounds"]

Bounds = tuple[float, float]

_ANY: Bounds = (-math.inf, math.inf)


def bounds(expression: Expr) -> Bounds:
    """Return bounds of an expression: its value is never below the first or above the second.

    Every field of an instance counts something, so it is 0 or more; nothing else is assumed
    of fields.

    Parameters
    ----------
    expression
        A number over the fields of an instance.

    Returns
    -------
    tuple of float
        The bounds, which may be infinite.

    Examples
    --------
    >>> from paceline.policy import inst, minimum, where
    >>> bounds(where(inst.running > 64, 512, 8192))
    (512, 8192)
    >>> bounds(minimum(8192, 64 + inst.running))
    (64, 8192)
    """
    if isinstance(expression, Const):
        value = expression.value
        return (value, value) if isinstance(value, int | float) else _ANY
    if not isinstance(expression, Op):
        return (0, math.inf)
    if expression.kind == "truth":
        return (0, 1)
    return _of_operation(expression.op, [bounds(part) for part in expression.parts])


def _of_operation(op: str, parts: list[Bounds]) -> Bounds:
    """Return the bounds of an operation on numbers."""
    first = parts[0]
    match op:
        case "if":
            return (min(low for low, _ in parts[1:]), max(high for _, high in parts[1:]))
        case "min" | "max":
            of = min if op == "min" else max
            return (of(low for low, _ in parts), of(high for _, high in parts))
        case "neg":
            return (-first[1], -first[0])
        case "abs":
            least = 0 if first[0] <= 0 <= first[1] else min(abs(first[0]), abs(first[1]))
            return (least, max(abs(first[0]), abs(first[1])))
        case "ilog2":
            return (0, math.inf if math.isinf(first[1]) else math.log2(max(first[1], 1)))
    for other in parts[1:]:
        first = _of_two(op, first, other)
    return first


def _of_two(op: str, left: Bounds, right: Bounds) -> Bounds:
    if op == "add":
        return (left[0] + right[0], left[1] + right[1])
    if op == "sub":
        return (left[0] - right[1], left[1] - right[0])
    if op != "mul":
        if right[0] <= 0 <= right[1]:
            return _ANY
        right = (1 / right[1], 1 / right[0])
    ends = [0.0 if 0 in pair else pair[0] * pair[1] for pair in itertools.product(left, right)]
    low, high = min(ends), max(ends)
    return (math.floor(low) if op == "floordiv" and math.isfinite(low) else low, high)
