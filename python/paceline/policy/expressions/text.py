"""Expressions and rules read from text in Python's syntax; nothing in the text is run."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from paceline._toml import close_matches
from paceline.errors import PolicyError
from paceline.policy.expressions import functions, namespaces
from paceline.policy.expressions.accumulated import accumulated
from paceline.policy.expressions.tree import Expr, lift
from paceline.policy.limits import MOST_CHARACTERS, MOST_LEVELS

__all__ = ["NAMES", "evaluate", "parse"]

NAMES: Mapping[str, Any] = {
    "req": namespaces.req,
    "inst": namespaces.inst,
    "slo": namespaces.slo,
    "oracle": namespaces.oracle,
    "block": namespaces.block,
    "cluster": namespaces.cluster,
    "minimum": functions.minimum,
    "maximum": functions.maximum,
    "where": functions.where,
    "ilog2": functions.ilog2,
    "abs": functions.absolute,
    "accumulated": accumulated,
}
"""The names that the text of an expression may use."""

_INFIX: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_INSTEAD: dict[type[ast.AST], str] = {
    ast.And: "& (with comparisons in parentheses)",
    ast.Or: "| (with comparisons in parentheses)",
    ast.Not: "~",
    ast.IfExp: "where(condition, a, b)",
}


def parse(text: str, what: str = "an expression") -> Expr:
    """Read an expression; nothing in the text is run.

    Parameters
    ----------
    text
        What `repr` gave of an expression, or the like by hand.
    what
        Names it in an error.

    Raises
    ------
    PolicyError
        If it is not an expression, or joins values of the wrong kinds.

    Examples
    --------
    >>> parse("inst.free_blocks > 2 * inst.waiting")
    inst.free_blocks > 2 * inst.waiting
    """
    value = evaluate(text, what, NAMES)
    try:
        return lift(value)
    except PolicyError as error:
        raise PolicyError(f"{what}: {error}") from error


def evaluate(text: str, what: str, names: Mapping[str, Any], methods: tuple[type, ...] = ()) -> Any:  # noqa: ANN401
    """Return the value that a text stands for, given the names that it may use.

    Parameters
    ----------
    text
        One expression in Python's syntax, of calls, operators and constants.
    what
        Names it in an error.
    names
        The names that the text may use, with their values.
    methods
        Types with public methods that it may call, beside the namespaces.

    Raises
    ------
    PolicyError
        If the text holds anything else.
    """
    if len(text) > MOST_CHARACTERS:
        raise PolicyError(f"{what} must have at most {MOST_CHARACTERS} characters, had {len(text)}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return _Reader(names, (namespaces.Namespace, *methods)).read(tree)
    except SyntaxError as error:
        raise PolicyError(f"{what} must be an expression, was {_short(text)} ({error.msg})") from error
    except (RecursionError, MemoryError) as error:  # the latter is what the parser raises
        raise PolicyError(
            f"{what} must be nested in at most {MOST_LEVELS} levels, was nested deeper: {_short(text)}"
        ) from error
    except (PolicyError, TypeError, ArithmeticError, ValueError) as error:
        raise PolicyError(f"{what}: {error}; the text was {_short(text)}") from error


def _short(text: str) -> str:
    """Return a text for a message, cut if it is long."""
    return repr(text) if len(text) <= 500 else f"{text[:500]!r} and {len(text) - 500} characters more"


class _Reader:
    """Turns a syntax tree into the value that it stands for."""

    def __init__(self, names: Mapping[str, Any], owners: tuple[type, ...]) -> None:
        self._names, self._owners = names, owners

    def read(self, node: ast.expr) -> Any:  # noqa: ANN401 - expressions, rules, numbers, strings
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None):
                return node.value
            case ast.Name(id=name):
                if name not in self._names:
                    raise PolicyError(f"there is no {name!r}{close_matches(name, self._names)}")
                return self._names[name]
            case ast.Attribute(value=inner, attr=name):
                owner = self.read(inner)
                if name.startswith("_") or not isinstance(owner, self._owners):
                    raise PolicyError(f"{ast.unparse(inner)} has no {name!r}")
                try:
                    return getattr(owner, name)
                except PolicyError:
                    raise
                except AttributeError as error:
                    raise PolicyError(f"{ast.unparse(inner)} has no {name!r}") from error
            case ast.Call(func=function, args=args, keywords=keywords):
                if any(isinstance(arg, ast.Starred) for arg in args) or any(k.arg is None for k in keywords):
                    raise PolicyError(f"* and ** are not understood in {ast.unparse(node)}")
                given = {str(keyword.arg): self.read(keyword.value) for keyword in keywords}
                called = self.read(function)
                if not callable(called):
                    raise PolicyError(f"{ast.unparse(function)} takes nothing in parentheses")
                return called(*(self.read(arg) for arg in args), **given)
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return tuple(self.read(element) for element in elements)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _negative(self.read(operand))
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return ~lift(self.read(operand))
            case ast.BinOp(op=sign) if type(sign) in _INFIX:
                return self._joined(node)
            case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _INFIX:
                return _INFIX[type(sign)](lift(self.read(left)), lift(self.read(right)))
            case ast.Compare(ops=[_, _, *_]):
                raise PolicyError(f"write (a < b) & (b < c) for a < b < c, was {ast.unparse(node)}")
        self._refuse(node)

    def _joined(self, node: ast.expr) -> Expr:
        """Read operators that follow one another: a long sum is deep on its left."""
        rest: list[tuple[Callable[[Any, Any], Any], ast.expr]] = []
        while isinstance(node, ast.BinOp) and type(node.op) in _INFIX:
            rest.append((_INFIX[type(node.op)], node.right))
            node = node.left
        value = lift(self.read(node))
        for sign, right in reversed(rest):
            value = sign(value, lift(self.read(right)))
        return value

    def _refuse(self, node: ast.expr) -> NoReturn:
        kind = type(node.op if isinstance(node, ast.BoolOp | ast.UnaryOp) else node)
        instead = f"; write {_INSTEAD[kind]}" if kind in _INSTEAD else ""
        raise PolicyError(f"{ast.unparse(node)} is not understood{instead}")


def _negative(value: Any) -> Any:  # noqa: ANN401 - a number stays one: it may be an argument
    return -value if isinstance(value, int | float) and not isinstance(value, bool) else -lift(value)
