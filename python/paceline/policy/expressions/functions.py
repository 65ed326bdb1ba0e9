"""Functions of expressions for which Python has no operator."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy.expressions.tree import Expr, Operand, op

__all__ = ["absolute", "ilog2", "maximum", "minimum", "where"]


@typed(PolicyError)
def minimum(*operands: Operand) -> Expr:
    """Return the smallest of two or more numbers.

    Examples
    --------
    >>> from paceline import req
    >>> minimum(req.prompt_tokens, 512)
    minimum(req.prompt_tokens, 512)
    """
    _several("minimum", operands)
    return op("min", *operands)


@typed(PolicyError)
def maximum(*operands: Operand) -> Expr:
    """Return the largest of two or more numbers."""
    _several("maximum", operands)
    return op("max", *operands)


@typed(PolicyError)
def where(condition: Operand, then: Operand, otherwise: Operand) -> Expr:
    """Return the first of two values where a condition holds, the second elsewhere."""
    return op("if", condition, then, otherwise)


@typed(PolicyError)
def ilog2(operand: Operand) -> Expr:
    """Return the whole part of a number's logarithm to base 2; 0 for anything below 2."""
    return op("ilog2", operand)


def absolute(operand: Operand) -> Expr:
    """Return a number without its sign, as ``abs`` does of an expression."""
    return op("abs", operand)


def _several(name: str, operands: tuple[Operand, ...]) -> None:
    if len(operands) < 2:
        raise PolicyError(f"{name}() takes two or more numbers, was given {len(operands)}")
