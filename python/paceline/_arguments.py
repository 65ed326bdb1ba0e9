"""Checks of argument types by annotation, with errors that name the argument.

A function under `typed` refuses an argument that is not of its annotation, and a
dataclass under `typed_fields` refuses a field. A whole number is accepted for a
number, and a list for a tuple. What an annotation does not say (a range, a sign)
is checked where the value is used.
"""

from __future__ import annotations

import builtins
import collections.abc
import functools
import inspect
import itertools
import numbers
import os
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, ParamSpec, TypeVar

from paceline._check import said
from paceline.errors import ConfigError, PacelineError

__all__ = ["typed", "typed_fields"]

Check = Callable[[object], bool]
"""Whether a value is of an annotation."""

_ABSENT = object()

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")

_EXAMPLES = {
    "Cluster": "a Cluster, such as Cluster([Instance(model=..., gpu=...)])",
    "Instance": "an Instance, such as Instance(model=..., gpu=...)",
    "Pace": "a Pace, such as Pace(tpot=0.1)",
    "Policy": "a Policy, such as paceline.policies.vllm()",
    "Prediction": "a Prediction, such as Prediction(seconds=0.002)",
    "Result": "a Result, as paceline.replay() returns",
    "SLO": "an SLO, such as SLO(ttft=1.0)",
    "Trace": "a Trace, as paceline.read_trace(path) returns",
    "TraceScan": "a TraceScan, as paceline.scan_trace(path) returns",
}
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_SEVERAL = frozenset({inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD})
_PLAIN = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a string",
    type(None): "None",
}


def typed(error: type[PacelineError] = ConfigError) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: the function refuses arguments that are not of their annotations.

    Parameters
    ----------
    error
        The class of the error.

    Examples
    --------
    >>> @typed()
    ... def double(count: int) -> int:
    ...     return 2 * count
    >>> double("2")
    Traceback (most recent call last):
    paceline.errors.ConfigError: count of double() must be a whole number, was '2'
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        # Made at the first call: most functions of a module are not called by a command.
        shape: _Shape | None = None

        def refuse(name: str, value: object, hint: Any) -> PacelineError:  # noqa: ANN401
            where = f"{name} of {function.__qualname__.removesuffix('.__init__')}()"
            return error(f"{where} must be {_words(hint)}, was {said(value)}")

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            nonlocal shape
            if shape is None:
                shape = _Shape(function)
            if shape.takes_any:
                try:
                    bound = shape.signature.bind(*args, **kwargs)
                except TypeError:
                    return function(*args, **kwargs)  # Python's own error has the function's name
                for name, value in bound.arguments.items():
                    if name in shape.checks:
                        kind = shape.signature.parameters[name].kind
                        for one in _several(value, kind):
                            if not shape.checks[name](one):
                                raise refuse(name, one, shape.hints[name])
                return function(*args, **kwargs)
            # Without these, arguments pair with parameters by place and by name. Python refuses the rest.
            checks = shape.checks
            for name, value in itertools.chain(zip(shape.positional, args, strict=False), kwargs.items()):
                if name in checks and not checks[name](value):
                    raise refuse(name, value, shape.hints[name])
            return function(*args, **kwargs)

        return call

    return decorate


class _Shape:
    """The parameters of a function, and the checks of their annotations."""

    __slots__ = ("checks", "hints", "positional", "signature", "takes_any")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.signature = inspect.signature(function)
        kinds = {name: parameter.kind for name, parameter in self.signature.parameters.items()}
        self.positional = [name for name, kind in kinds.items() if kind in _BY_PLACE]
        self.takes_any = not _SEVERAL.isdisjoint(kinds.values())
        self.hints = _hints(function, function.__annotations__)
        self.checks = {name: _check(hint) for name, hint in self.hints.items()}


def typed_fields(
    error: type[PacelineError] = ConfigError, *, but: tuple[str, ...] = ()
) -> Callable[[type[C]], type[C]]:
    """Return a decorator, for below ``@dataclass``: the class refuses fields not of their annotations.

    Parameters
    ----------
    error
        The class of the error.
    but
        Fields that the dataclass checks or converts itself.
    """

    def decorate(cls: type[C]) -> type[C]:
        then = cls.__dict__.get("__post_init__")
        known: dict[type, list[tuple[str, Any, Check]]] = {}

        def __post_init__(self: Any) -> None:  # noqa: ANN401
            owner = type(self)
            if owner not in known:
                hints = _hints(cls, cls.__annotations__)
                known[owner] = [(name, hint, _check(hint)) for name, hint in hints.items() if name not in but]
            for name, hint, holds in known[owner]:
                value = getattr(self, name, _ABSENT)
                if type(value) is not hint and value is not _ABSENT and not holds(value):
                    named = f"{name} of {'an' if owner.__name__[0] in 'AEIO' else 'a'} {owner.__name__}"
                    raise error(f"{named} must be {_words(hint)}, was {said(value)}")
            if then is not None:
                then(self)

        cls.__post_init__ = __post_init__  # type: ignore[attr-defined]
        return cls

    return decorate


def _several(value: Any, kind: inspect._ParameterKind) -> Collection[object]:  # noqa: ANN401
    """Return the arguments that a parameter of a kind takes."""
    if kind is inspect.Parameter.VAR_POSITIONAL:
        return typing.cast("Collection[object]", value)
    if kind is inspect.Parameter.VAR_KEYWORD:
        return typing.cast("Collection[object]", value.values())
    return (value,)


class _Names(dict[str, Any]):
    """The names that annotations can use: a module's own, and the package's classes.

    An annotation may name a class that the module imports for type checkers only. An
    argument of that class cannot exist before the module of the class is loaded.
    """

    def __missing__(self, name: str) -> Any:  # noqa: ANN401
        if hasattr(builtins, name):
            return getattr(builtins, name)
        package = sys.modules["paceline"]
        if name in package.__all__:
            return getattr(package, name)
        for place in sorted(place for place in sys.modules if place.startswith("paceline.")):
            found = vars(sys.modules[place]).get(name)
            if isinstance(found, type) and found.__module__ == place:
                return found
        raise NameError(name)


def _hints(owner: Any, annotations: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """Resolve annotations one by one; one that cannot be resolved is not checked."""
    module = _Names(vars(sys.modules[owner.__module__]))
    hints = {}
    for name, hint in annotations.items():
        if name == "return" or name.startswith("_"):
            continue
        try:
            resolved = eval(hint, {}, module) if isinstance(hint, str) else hint
        except NameError:
            continue
        if typing.get_origin(resolved) is not typing.ClassVar:
            hints[name] = resolved
    return hints


@functools.lru_cache(maxsize=4096)
def _check(hint: Any) -> Check:  # noqa: ANN401
    """Return the check of an annotation, which is taken apart once, as far as it can be checked."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or hint is object or isinstance(hint, TypeVar):
        return _anything
    if hint is None or hint is type(None):
        return lambda value: value is None
    if origin in (typing.Union, types.UnionType):
        return _any_of(tuple(_check(part) for part in parts))
    if origin is Literal:
        return lambda value: any(type(value) is type(part) and value == part for part in parts)
    if origin is not None:
        return _check_generic(origin, parts)
    if not isinstance(hint, type):
        return _anything
    if hint is float:
        return _is_number
    if hint is int:
        return _is_whole
    if hint is bool:
        return lambda value: isinstance(value, bool) or type(value).__name__ == "bool"  # numpy's
    if issubclass(hint, os.PathLike):
        return lambda value: isinstance(value, os.PathLike)
    if getattr(hint, "_is_protocol", False):
        members = _members(hint)
        return lambda value: all(hasattr(value, name) for name in members)
    return lambda value: isinstance(value, hint)


def _anything(_: object) -> bool:
    return True


def _any_of(checks: tuple[Check, ...]) -> Check:
    def check(value: object) -> bool:
        for holds in checks:  # noqa: SIM110 - twice as fast as any()
            if holds(value):
                return True
        return False

    return check


def _is_whole(value: object) -> bool:
    return type(value) is int or (isinstance(value, numbers.Integral) and not isinstance(value, bool))


def _is_number(value: object) -> bool:
    if type(value) is float:
        return True
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _check_generic(origin: Any, parts: tuple[Any, ...]) -> Check:  # noqa: ANN401
    if origin is collections.abc.Callable:
        return callable
    if origin is os.PathLike:
        return lambda value: isinstance(value, os.PathLike)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, item = (_check(part) for part in parts or (Any, Any))
        return lambda value: (
            isinstance(value, Mapping)
            and (key is _anything or all(map(key, value)))
            and (item is _anything or all(map(item, value.values())))
        )
    holds = _check_elements(origin, tuple(_check(part) for part in parts if part is not Ellipsis), parts)
    # Text is a sequence of text, and a mapping one of its keys; neither is meant.
    return lambda value: (
        (type(value) in (tuple, list) or not isinstance(value, str | bytes | Mapping)) and holds(value)
    )


def _check_elements(origin: Any, checks: tuple[Check, ...], parts: tuple[Any, ...]) -> Check:  # noqa: ANN401
    """Return the check of a tuple, a list, or another class with elements."""
    if origin is tuple and parts[1:] == (Ellipsis,):
        return lambda value: isinstance(value, tuple | list) and all(map(checks[0], value))
    if origin is tuple:
        return lambda value: (
            isinstance(value, tuple | list)
            and len(value) == len(checks)
            and all(holds(each) for holds, each in zip(checks, value, strict=True))
        )
    if origin in (list, collections.abc.Sequence, collections.abc.Collection):
        element = checks[0] if checks else _anything
        return lambda value: (
            hasattr(value, "__len__")
            and hasattr(value, "__iter__")
            and not isinstance(value, set | frozenset)
            and all(map(element, value))
        )
    if origin is collections.abc.Iterable:
        return lambda value: hasattr(value, "__iter__")
    return lambda value: not isinstance(origin, type) or isinstance(value, origin)


def _members(protocol: type) -> list[str]:
    bases = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]
    return sorted({name for base in bases for name in vars(base) if not name.startswith("_")})


def _words(hint: Any) -> str:  # noqa: ANN401
    """Return an annotation in words."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, collections.abc.Hashable) and hint in _PLAIN:
        return _PLAIN[hint]
    if origin in (typing.Union, types.UnionType):
        said_of = list(dict.fromkeys(_words(part) for part in parts))
        return " or ".join([", ".join(said_of[:-1]), said_of[-1]] if len(said_of) > 1 else said_of)
    if origin is Literal:
        return f"one of {', '.join(map(str, parts))}"
    if origin is collections.abc.Callable:
        return "a function"
    if (
        hint is os.PathLike
        or origin is os.PathLike
        or (isinstance(hint, type) and issubclass(hint, os.PathLike))
    ):
        return "a path"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a dictionary of {_words(parts[1])} by {_words(parts[0])}" if parts else "a dictionary"
    if origin is tuple and not (len(parts) == 2 and parts[1] is Ellipsis):
        return f"{len(parts)} values ({', '.join(_words(part) for part in parts)})"
    if origin in (
        tuple,
        list,
        collections.abc.Sequence,
        collections.abc.Collection,
        collections.abc.Iterable,
    ):
        return f"a list, each of it {_words(parts[0])}" if parts else "a list"
    if getattr(hint, "_is_protocol", False):
        return f"an object with {', '.join(_members(hint))}"
    name = getattr(origin or hint, "__name__", str(hint))
    return _EXAMPLES.get(name, f"{'an' if name[:1] in 'AEIO' else 'a'} {name}")
