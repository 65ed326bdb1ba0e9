"""Rules that are Python functions: made for each replay, or watched for state that outlives one."""

from __future__ import annotations

import hashlib
import io
import pickle
import types
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from paceline._check import said
from paceline.errors import PolicyError, RouterStateWarning
from paceline.policy.value import shown

__all__ = ["PerReplay", "Watched", "is_class_of_routers", "per_replay", "routers_of"]

_MOST_STATE = 2**23
"""Bytes of state beyond which a function is not watched."""

_PLAIN = (int, float, str, bytes, tuple, list, dict, set, frozenset, bytearray)
"""Types of global variables that count as state of the functions that name them."""


@dataclass(frozen=True, slots=True, repr=False)
class PerReplay:
    """A router that is made anew for each replay. Made by `per_replay`."""

    make: Callable[[], Any]

    def __call__(self) -> Any:  # noqa: ANN401 - what the user's function returns
        """Return a router for one replay."""
        return self.make()

    def __repr__(self) -> str:
        return f"per_replay({shown(self.make)})"


def per_replay(make: Callable[[], Any]) -> PerReplay:
    """Make a Python router anew for each replay, so that no replay sees the state of another.

    A class may stand for itself in a rule: each replay calls it without arguments.

    Parameters
    ----------
    make
        Called without arguments at the start of a replay; returns a function of the
        request and the list of instances.

    Raises
    ------
    PolicyError
        If it cannot be called.

    Examples
    --------
    >>> from itertools import count
    >>> from paceline import Policy
    >>> def make():
    ...     turn = count()
    ...     return lambda request, instances: next(turn) % len(instances)
    >>> Policy(name="in turn", on_arrival=per_replay(make)).on_arrival
    per_replay(make)
    """
    if not callable(make):
        raise PolicyError(f"make of per_replay() must be a function without arguments, was {said(make)}")
    return PerReplay(make)


def is_class_of_routers(rule: object) -> bool:
    """Whether a rule is a class whose objects can be called."""
    return isinstance(rule, type) and any("__call__" in base.__dict__ for base in rule.__mro__)


def routers_of(calls: Sequence[Callable[..., Any]]) -> list[Callable[..., Any]]:
    """Return the functions of one replay: one for all rules that have the same maker.

    Raises
    ------
    PolicyError
        If what was made cannot be called.
    """
    made: dict[int, Any] = {}
    for rule in calls:
        if id(rule) not in made:
            made[id(rule)] = rule() if isinstance(rule, PerReplay | type) else rule
        if not callable(made[id(rule)]):
            raise PolicyError(
                f"{shown(rule)} must return a function of the request and the list of instances, "
                f"returned {said(made[id(rule)])}"
            )
    return [made[id(rule)] for rule in calls]


_SEEN: weakref.WeakKeyDictionary[Any, tuple[bytes, bytes]] = weakref.WeakKeyDictionary()
"""The state of a function at the start and at the end of the latest replay that it took part in."""


class Watched:
    """A context for a replay: warns if a function starts with state that a replay before changed."""

    def __init__(self, calls: Sequence[Callable[..., Any]]) -> None:
        self._calls = [rule for rule in calls if not isinstance(rule, PerReplay | type)]
        self._starts: list[bytes | None] = []

    def __enter__(self) -> None:
        """Compare the functions' state with that before and after the latest replay."""
        self._starts = [_state_of(call) for call in self._calls]
        for call, start in zip(self._calls, self._starts, strict=True):
            before, after = _latest(call)
            if start is not None and start == after != before:
                warnings.warn(
                    f"{_named(call)} starts with state that an earlier replay changed, so that this result "
                    "depends on what was replayed before; a class, or per_replay(make), gives each replay a "
                    "router of its own",
                    RouterStateWarning,
                    stacklevel=4,
                )

    def __exit__(self, *_: object) -> None:
        """Keep the functions' state, for the next replay."""
        for call, start in zip(self._calls, self._starts, strict=True):
            end = _state_of(call)
            if start is not None and end is not None:
                with suppress(TypeError):  # no weak reference to it can be made
                    _SEEN[_holder(call)] = (start, end)


def _named(call: object) -> str:
    """Name a function, and an object by its class."""
    return shown(call) if hasattr(call, "__qualname__") else f"an object of {type(call).__qualname__}"


def _latest(call: object) -> tuple[bytes | None, bytes | None]:
    with suppress(TypeError):
        return _SEEN.get(_holder(call), (None, None))
    return None, None


def _holder(call: object) -> object:
    """Return what has the state of a function: for a method, its object."""
    return call.__self__ if isinstance(call, types.MethodType) else call


def _state_of(call: object) -> bytes | None:
    """Return a digest of what a function keeps; None if it cannot be told."""
    sink = _Sink()
    try:
        _Pickler(sink, protocol=5).dump(_holder(call))
    except Exception:
        return None
    return sink.digest.digest()


class _Sink(io.RawIOBase):
    """A file that keeps a digest of what is written, up to a limit."""

    def __init__(self) -> None:
        super().__init__()
        self.digest, self._size = hashlib.sha256(), 0

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        size = memoryview(data).nbytes
        self._size += size
        if self._size > _MOST_STATE:
            raise ValueError("more state than is watched")
        self.digest.update(data)
        return size


class _Pickler(pickle.Pickler):
    """Writes what an object holds; functions by what they close over, and modules and classes by name."""

    def reducer_override(self, value: object) -> Any:  # noqa: ANN401 - as pickle has it
        match value:
            case types.ModuleType():
                return str, (value.__name__,)
            case type() if value.__module__ != "builtins":
                return str, (f"{value.__module__}.{value.__qualname__}",)
            case types.CellType():
                return tuple, ((value.cell_contents,),)
            case types.FunctionType():
                return tuple, (_kept_by(value),)
        return NotImplemented


def _kept_by(function: types.FunctionType) -> tuple[object, ...]:
    """Return what a function keeps between calls: what it closes over, its defaults, and plain globals."""
    names = function.__code__.co_names
    known = {name: function.__globals__.get(name) for name in names}
    plain = {name: value for name, value in known.items() if isinstance(value, _PLAIN)}
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return (function.__qualname__, cells, function.__defaults__, function.__kwdefaults__, plain)
