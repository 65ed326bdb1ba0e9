"""A wrong argument raises an error that Paceline raises on purpose.

Every function, constructor and method that is reachable from a public module is
called with each argument wrong in turn, the others being valid. The call may
return a value (the argument is valid there), or raise one of our exceptions, an
`OSError` (for a path), or a `TypeError` or `ValueError` that a `raise` statement
in Paceline's code raised or that Python raises for a signature.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import math
import pkgutil
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline import PacelineError, _arguments
from unit.arguments.good import BY_NAME, BY_PLACE, objects

HOME = Path(paceline.__file__).parent

NOT_CALLED = {
    "paceline.cli": "the command line has tests of its own, and what it is given are strings",
    "paceline.demo": "a script",
    "paceline.study": "runs for minutes; its parts are studies' own",
    "paceline.errors": "exceptions",
}

INTERNAL = {
    "to_wire": "between Paceline's parts: what the engine is sent",
    "shared_wire": "likewise",
    "from_outcome": "likewise: what the engine gives",
    "kernels": "likewise: the arguments of a cost",
    "checked": "likewise: a rule and its place",
}
"""Methods without an underscore that only Paceline itself calls."""


class Odd:
    """An object without any use; its repr raises an error."""

    def __repr__(self) -> str:
        raise RuntimeError("this has no repr")


WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    7,
    2**70,
    10**5000,
    -0.5,
    math.nan,
    math.inf,
    1e300,
    "",
    "nonsense",
    "x" * 10_000,
    b"bytes",
    [],
    [None],
    [3, "a"],
    (),
    {},
    {"a": 1},
    {1: 2},
    {"set"},
    object(),
    Odd(),
    lambda *_: None,
    Exception,
    range(3),
    paceline.req,
    paceline.req.phase,
    paceline.inst.requests,
    BY_NAME["trace"],
    BY_NAME["policy"],
    BY_NAME["cluster"],
    BY_NAME["frame"],
)


def public_modules() -> Iterator[Any]:
    yield paceline
    for found in pkgutil.iter_modules(paceline.__path__, "paceline."):
        if not found.name.rpartition(".")[2].startswith("_") and found.name not in NOT_CALLED:
            yield importlib.import_module(found.name)


@cache
def called() -> dict[str, Callable[..., Any]]:
    """Return all public callables by their names in an error."""
    found: dict[str, Callable[..., Any]] = {}
    for module in public_modules():
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value) or (inspect.isclass(value) and not issubclass(value, Exception)):
                if inspect.isclass(value) and (
                    inspect.isabstract(value) or getattr(value, "_is_protocol", False)
                ):
                    continue
                if found.get(name, value) is not value:  # rank.load beside result.load
                    name = f"{module.__name__.removeprefix('paceline.')}.{name}"
                found[name] = value
                if inspect.isclass(value):
                    found |= {
                        f"{name}.{method}": getattr(value, method)
                        for method, raw in vars(value).items()
                        if not method.startswith("_")
                        and method not in INTERNAL
                        and isinstance(raw, classmethod | staticmethod)
                    }
    for number, owner in enumerate(objects()):
        for name in dir(owner):
            if name in INTERNAL or (name.startswith("_") and name not in OPERATORS):
                continue
            raw = inspect.getattr_static(type(owner), name, None)
            if inspect.isfunction(raw):
                found[f"{type(owner).__name__}#{number}.{name}"] = getattr(owner, name)
    return found


BINARY = ("add", "sub", "mul", "truediv", "floordiv", "and", "or")
OTHERS = ("lt", "le", "gt", "ge", "eq", "ne", "invert", "neg", "abs", "bool", "len", "repr")
OPERATORS = (*(f"__{side}{name}__" for side in ("", "r") for name in BINARY), *(f"__{n}__" for n in OTHERS))


def calls(place: str, function: Callable[..., Any]) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Yield the calls of a function: without arguments, with an unknown one, and with each argument wrong."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        parameters = {}
    plain = place.split("#")[0] + "." + place.rpartition(".")[2] if "#" in place else place
    right: dict[str, Any] = {}
    variadic: list[str] = []
    for name, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            variadic.append(name)
        elif f"{plain}.{name}" in BY_PLACE or parameter.default is parameter.empty:
            right[name] = BY_PLACE.get(f"{plain}.{name}", BY_NAME.get(name))
    positional = [n for n, p in parameters.items() if p.kind == p.POSITIONAL_ONLY]

    def split(given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return tuple(given[n] for n in positional if n in given), {
            n: v for n, v in given.items() if n not in positional
        }

    yield "nothing", (), {}
    yield "no_such_argument", *split({**right, "no_such_argument": 1})
    yield "right", *split(right)
    for name, parameter in parameters.items():
        for wrong in WRONG:
            if parameter.kind == parameter.VAR_POSITIONAL:
                args, named = split(right)
                yield f"*{name}", (*args, *named.values(), wrong), {}
                yield f"*{name}", (*args, *named.values(), wrong, wrong), {}
            elif parameter.kind == parameter.VAR_KEYWORD:
                yield f"**{name}", *split({**right, "some": wrong})
            else:
                yield name, *split({**right, name: wrong})


@cache
def raises(path: str) -> frozenset[int]:
    """Return the lines of a file on which a raise statement stands."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    return frozenset(
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) and node.exc is not None
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    )


def is_ours(error: BaseException) -> bool:
    """Whether an error was raised on purpose."""
    if isinstance(error, PacelineError):
        return not isinstance(error, paceline.InternalError)
    if isinstance(error, OSError) or type(error).__module__.startswith("paceline."):
        return True
    if not isinstance(error, TypeError | ValueError) or isinstance(error, UnicodeError):
        return False
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    path = frame.f_code.co_filename
    if path in (__file__, _arguments.__file__):  # Python's message about a signature
        return isinstance(error, TypeError) and "argument" in str(error)
    return Path(path).is_relative_to(HOME) and line in raises(path)


def said(value: object) -> str:
    try:
        return repr(value)[:80]
    except Exception:
        return f"({type(value).__name__} without a repr)"


def broken(place: str, function: Callable[..., Any]) -> list[str]:
    found = []
    for name, args, named in calls(place, function):
        try:
            answer = function(*args, **named)
            if inspect.isgenerator(answer):
                list(answer)
        except Exception as error:
            if not is_ours(error):
                *_, (frame, line) = traceback.walk_tb(error.__traceback__)
                wrong = named.get(name, args[-1] if args else None)
                where = f"{Path(frame.f_code.co_filename).name}:{line}"
                found.append(
                    f"{place}({name}={said(wrong)}): {type(error).__name__}: {said(error)} at {where}"
                )
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", called())
def test_a_wrong_argument_gets_an_error_of_ours(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    problems = broken(place, called()[place])
    assert not problems, "\n".join(problems)
