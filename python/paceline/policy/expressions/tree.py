"""Expressions as trees: immutable, type-checked when they are built, compared by structure."""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from paceline._check import said
from paceline.errors import PolicyError
from paceline.policy.expressions.fields import meaning_of
from paceline.policy.expressions.kinds import LABELS, PHASES, Kind, named
from paceline.policy.expressions.syntax import BINARY, CALLS, COMPARED, COMPARISONS, TIGHT, UNARY, Written
from paceline.policy.limits import MOST_LEVELS, MOST_PARTS

__all__ = [
    "CHAINS",
    "Const",
    "Expr",
    "Field",
    "Op",
    "Operand",
    "Operator",
    "Over",
    "Reduction",
    "lift",
    "op",
]

Operator = Literal[
    "add", "sub", "mul", "div", "floordiv", "min", "max", "neg", "abs", "ilog2",
    "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "if",
]  # fmt: skip
"""The operators of expressions, by the engine's names."""

Reduction = Literal["mean", "min", "max", "sum", "count", "any", "all"]
"""How the values of many instances become one."""

CHAINS: frozenset[Operator] = frozenset(("add", "mul", "and", "or"))
"""Operators that take two or more operands, from left to right."""

_ADVICE = (
    "an expression is neither true nor false before a replay: write & for and, | for or, ~ for not, "
    "where(condition, a, b) for if, (a < b) & (b < c) for a < b < c; the expression was {}"
)


class Expr(ABC):
    """A value that the engine evaluates during a replay.

    Expressions are built from `req`, `inst`, `slo`, `oracle` and `cluster` with
    ``+ - * / //``, comparisons, ``& | ~``, `minimum`, `maximum`, `where`,
    `ilog2` and `abs`. ``==`` builds a comparison too; `same` says whether two
    expressions are equal.

    Raises
    ------
    PolicyError
        If operands are of the wrong kinds, such as a string compared with a
        number, or the expression has more than 1,000 parts or more than 100 levels
        (see `paceline.policy.limits`).

    Examples
    --------
    >>> from paceline import req
    >>> (req.phase != "answering") & (req.kv_tokens <= 5000)
    (req.phase != 'answering') & (req.kv_tokens <= 5000)
    """

    __slots__ = ()

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """The kind of the expression's value."""

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The operands of this expression."""
        return ()

    @property
    def size(self) -> int:
        """Fields, constants and operators in it, each as often as it is used."""
        return 1

    @property
    def levels(self) -> int:
        """The depth of its nesting; 1 for a field or a constant."""
        return 1

    @property
    @abstractmethod
    def key(self) -> tuple[object, ...]:
        """Plain values that are equal if the expressions are."""

    @property
    @abstractmethod
    def written(self) -> Written:
        """The expression in Python's syntax, as `paceline.policy.expressions.text` reads it back."""

    def same(self, other: object) -> bool:
        """Whether another expression has the same structure."""
        return type(other) is type(self) and self.key == other.key

    def walk(self) -> Iterator[Expr]:
        """Yield this expression and all expressions within it."""
        following: list[Expr] = [self]
        while following:
            one = following.pop()
            yield one
            following.extend(reversed(one.parts))

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return self.written.text

    def __bool__(self) -> bool:
        raise PolicyError(_ADVICE.format(self))

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return op("eq", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return op("ne", self, other)

    def __lt__(self, other: Operand) -> Expr:
        return op("lt", self, other)

    def __le__(self, other: Operand) -> Expr:
        return op("le", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return op("gt", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return op("ge", self, other)

    def __add__(self, other: Operand) -> Expr:
        return op("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return op("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return op("sub", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return op("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return op("mul", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return op("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return op("div", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return op("div", other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        return op("floordiv", self, other)

    def __rfloordiv__(self, other: Operand) -> Expr:
        return op("floordiv", other, self)

    def __and__(self, other: Operand) -> Expr:
        return op("and", self, other)

    def __rand__(self, other: Operand) -> Expr:
        return op("and", other, self)

    def __or__(self, other: Operand) -> Expr:
        return op("or", self, other)

    def __ror__(self, other: Operand) -> Expr:
        return op("or", other, self)

    def __invert__(self) -> Expr:
        return op("not", self)

    def __neg__(self) -> Expr:
        return op("neg", self)

    def __abs__(self) -> Expr:
        return op("abs", self)


Operand = Expr | float | str
"""What an operator takes: an expression, a number or a string."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Const(Expr):
    """A constant."""

    value: float | str

    @property
    def kind(self) -> Kind:
        """The kind of the expression's value."""
        if isinstance(self.value, str):
            return "text"
        return "truth" if isinstance(self.value, bool) else "number"

    @property
    def key(self) -> tuple[object, ...]:
        """Plain values that are equal if the expressions are."""
        # Divided by 0.0 and by -0.0, a number has other signs, though the two are equal.
        negative = isinstance(self.value, float) and math.copysign(1.0, self.value) < 0
        return ("const", self.kind, self.value, negative)

    @property
    def written(self) -> Written:
        """The value as Python writes it."""
        return Written(repr(self.value), TIGHT + 1)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Field(Expr):
    """A field of a request, an instance or an objective."""

    space: str
    name: str
    argument: str | None = None

    @property
    def kind(self) -> Kind:
        """The kind of the expression's value."""
        return meaning_of(self.space, self.name).kind

    @property
    def key(self) -> tuple[object, ...]:
        """Plain values that are equal if the expressions are."""
        return ("field", self.space, self.name, self.argument)

    @property
    def written(self) -> Written:
        """The field behind its namespace, with what it is called with."""
        takes = meaning_of(self.space, self.name).takes
        given = {
            "nothing": "",
            "request": "(req)",
            "class": f"({self.argument!r})",
            "column": f"({self.argument!r})",
            "gauge": f"({self.argument!r})",
        }[takes]
        return Written(f"{self.space}.{self.name}{given}", TIGHT + 1)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Op(Expr):
    """An operator and its operands."""

    op: Operator
    args: tuple[Expr, ...]
    _extent: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_extent", _extent(self.args))

    @property
    def size(self) -> int:
        """Fields, constants and operators in it, each as often as it is used."""
        return self._extent[0]

    @property
    def levels(self) -> int:
        """The depth of its nesting."""
        return self._extent[1]

    @property
    def kind(self) -> Kind:
        """The kind of the expression's value."""
        if self.op == "if":
            return self.args[1].kind
        return "truth" if self.op in COMPARISONS or self.op in ("and", "or", "not") else "number"

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The operands of this expression."""
        return self.args

    @property
    def key(self) -> tuple[object, ...]:
        """Plain values that are equal if the expressions are."""
        return (self.op, *(part.key for part in self.args))

    @property
    def written(self) -> Written:
        """The operands with a sign between them or before them, or in a call."""
        name, args = self.op, [arg.written for arg in self.args]
        if name in COMPARISONS:
            left, right = (arg.within(COMPARED + 1) for arg in args)
            return Written(f"{left} {COMPARISONS[name]} {right}", COMPARED)
        if name in BINARY:
            sign, binds = BINARY[name]
            operands = [args[0].within(binds), *(arg.within(binds + 1) for arg in args[1:])]
            return Written(f" {sign} ".join(operands), binds)
        if name in UNARY:
            return Written(f"{UNARY[name]}{args[0].within(TIGHT)}", TIGHT)
        return Written(f"{CALLS[name]}({', '.join(arg.text for arg in args)})", TIGHT + 1)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Over(Expr):
    """An aggregate over all instances, or over the instances of some pools."""

    over: Reduction
    of: Expr
    within: tuple[str, ...] | None = None
    _extent: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_extent", _extent((self.of,)))

    @property
    def size(self) -> int:
        """Fields, constants and operators in it, each as often as it is used."""
        return self._extent[0]

    @property
    def levels(self) -> int:
        """The depth of its nesting."""
        return self._extent[1]

    @property
    def kind(self) -> Kind:
        """The kind of the expression's value."""
        return "truth" if self.over in ("any", "all") else "number"

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The operands of this expression."""
        return (self.of,)

    @property
    def key(self) -> tuple[object, ...]:
        """Plain values that are equal if the expressions are."""
        return (f"over {self.over}", self.within, self.of.key)

    @property
    def written(self) -> Written:
        """A call of a method of `cluster`."""
        given = "" if self.of.same(Const(True)) and self.over == "count" else self.of.written.text
        names = self.within or ()
        pools = "" if not names else f"within={repr(names[0]) if len(names) == 1 else repr(names)}"
        return Written(f"cluster.{self.over}({', '.join(filter(None, (given, pools)))})", TIGHT + 1)


def _extent(parts: tuple[Expr, ...]) -> tuple[int, int]:
    """Return size and levels of an expression with these operands; refuse one that is too large."""
    size = 1 + sum(part.size for part in parts)
    levels = 1 + max((part.levels for part in parts), default=0)
    if size > MOST_PARTS:
        raise PolicyError(
            f"an expression must have at most {MOST_PARTS} parts (fields, constants and operators, each "
            f"counted as often as it is used), was {size}"
        )
    if levels > MOST_LEVELS:
        raise PolicyError(f"an expression must be nested in at most {MOST_LEVELS} levels, was {levels}")
    return size, levels


def lift(value: object) -> Expr:
    """Return a value as an expression.

    Raises
    ------
    PolicyError
        If it is no number, condition or string, or a number that a double
        cannot hold.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool | str):
        return Const(value)
    if isinstance(value, numbers.Integral):
        number: float = int(value)
    elif isinstance(value, numbers.Real):
        number = float(value)
    elif callable(value) and "takes the request" in repr(value):
        raise PolicyError(repr(value))
    else:
        what = f"{said(value)} ({type(value).__name__})"
        raise PolicyError(f"an expression must be made of fields, numbers and strings, was {what}")
    if not abs(number) <= 2**53:  # nor is nan
        raise PolicyError(f"a number in an expression must be finite and within 2**53, was {said(value)}")
    return Const(number)


def op(name: Operator, *operands: object) -> Expr:
    """Return an operator applied to operands.

    Raises
    ------
    PolicyError
        If the operands are not of the kinds that the operator takes.
    """
    args = tuple(lift(operand) for operand in operands)
    kinds = [arg.kind for arg in args]
    if name in ("and", "or", "not"):
        for arg in args:
            _expect(arg, "truth", "& | and ~ join conditions (put comparisons in parentheses)")
    elif name == "if":
        _expect(args[0], "truth", "where() takes a condition first")
        if kinds[1] != kinds[2] or kinds[1] not in ("number", "truth"):
            raise PolicyError(
                "where() must choose between two numbers or two conditions, was "
                f"{args[1]!r} ({named(kinds[1])}) and {args[2]!r} ({named(kinds[2])})"
            )
    elif name in ("eq", "ne") and not set(kinds) <= {"number"}:
        return Op(name, _labelled(COMPARISONS[name], args[0], args[1]))
    else:
        rule = f"{COMPARISONS[name]} compares numbers" if name in COMPARISONS else f"{name} takes numbers"
        for arg in args:
            _expect(arg, "number", rule)
        if name == "neg" and isinstance(args[0], Const):
            return lift(-args[0].value)  # type: ignore[operator]  # checked to be a number above
    first = args[0]
    if name in CHAINS and isinstance(first, Op) and first.op == name:
        # (a + b) + c is evaluated in the same order as a + b + c.
        args = (*first.args, *args[1:])
    return Op(name, args)


def _expect(arg: Expr, kind: Kind, rule: str) -> None:
    if arg.kind == kind:
        return
    if arg.kind in LABELS:
        raise PolicyError(f"{rule}; {arg!r} is {named(arg.kind)}, which {LABELS[arg.kind]} by == or !=")
    help_ = "; where(condition, 1, 0) makes a number of a condition" if kind == "number" else ""
    raise PolicyError(f"{rule}, not {named(arg.kind)}: {arg!r}{help_ if arg.kind == 'truth' else ''}")


def _labelled(sign: str, left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Check a comparison with a name in it; the name comes second."""
    if left.kind == "text" and right.kind in LABELS:
        left, right = right, left
    if left.kind in LABELS and right.kind == "text":
        text = right.value if isinstance(right, Const) else None
        if left.kind == "phase" and text not in PHASES:
            raise PolicyError(f"{left!r} must be compared with one of {', '.join(PHASES)}, was {text!r}")
        return left, right
    for side in (left, right):
        if side.kind in LABELS:
            other = right if side is left else left
            raise PolicyError(f"{side!r} {LABELS[side.kind]}, not with {named(other.kind)}: {other!r}")
    raise PolicyError(
        f"{sign} compares numbers with numbers, or a phase, tenant or role with its name, was "
        f"{left!r} ({named(left.kind)}) {sign} {right!r} ({named(right.kind)})"
    )
