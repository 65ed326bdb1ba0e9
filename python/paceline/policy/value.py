"""Values that hold expressions: compared by structure, and printed as they are written in a policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from paceline.policy.expressions.tree import Expr

__all__ = ["Value", "shown", "structure"]

_PLAIN: Final = frozenset({bool, int, float, str, type(None)})


class Value:
    """The base of dataclasses that may hold expressions, of which ``==`` builds a comparison.

    Such a dataclass must be declared with ``eq=False, repr=False``.
    """

    __slots__ = ("_hash",)

    _hash: int

    positional: ClassVar[tuple[str, ...]] = ()
    """Fields that are printed first, without their names."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self is other or structure(self) == structure(other)

    def __hash__(self) -> int:
        # Computed once, as a replay compares the schedulers of all instances. A pickle has fields only.
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash(structure(self)))
            return self._hash

    def __repr__(self) -> str:
        plain, named = [], []
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # a mixin of dataclasses
            value = getattr(self, field.name)
            if field.name in self.positional:
                plain.append(shown(value))
            elif structure(value) != structure(_default(field)):
                named.append(f"{field.name}={shown(value)}")
        return f"{type(self).__name__}({', '.join(plain + named)})"


def structure(value: object) -> Any:  # noqa: ANN401 - plain values, nested in tuples
    """Return plain values that are equal and hash alike if the originals have the same structure."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Expr):
        return value.key
    if isinstance(value, Value):
        parts = (structure(getattr(value, field.name)) for field in dataclasses.fields(value))  # type: ignore[arg-type]
        return (type(value), *parts)
    if isinstance(value, tuple | list):
        return tuple(structure(part) for part in value)
    if isinstance(value, Mapping):
        return tuple((key, structure(part)) for key, part in value.items())
    return value


def shown(value: object) -> str:
    """Return a value as text, as it is written in a policy's file."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(shown(part) for part in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {shown(part)}' for key, part in value.items())}}}"
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    return repr(value)


def _default(field: dataclasses.Field[Any]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default
