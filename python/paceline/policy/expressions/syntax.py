"""The syntax that expressions are written in: Python's signs, and how tightly they bind."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BINARY", "CALLS", "COMPARED", "COMPARISONS", "TIGHT", "UNARY", "Written"]

COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
"""Operators that give true or false from two values, with their signs."""

COMPARED = 1
"""How tightly a comparison binds: less than any other operator."""

BINARY = {"or": ("|", 2), "and": ("&", 3), "add": ("+", 4), "sub": ("-", 4)} | {
    name: (sign, 5) for name, sign in (("mul", "*"), ("div", "/"), ("floordiv", "//"))
}
"""Operators between two operands: the sign, and how tightly it binds."""

UNARY = {"neg": "-", "not": "~"}
"""Operators before one operand."""

TIGHT = 6
"""How tightly a sign before one operand binds."""

CALLS = {"min": "minimum", "max": "maximum", "if": "where", "abs": "abs", "ilog2": "ilog2"}
"""Operators that are written as functions."""


class Written(NamedTuple):
    """The text of an expression, and how tightly its outermost operator binds."""

    text: str
    binds: int

    def within(self, least: int) -> str:
        """Return the text, in parentheses where it binds less tightly than ``least``."""
        return f"({self.text})" if self.binds < least else self.text
