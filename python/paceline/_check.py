"""Checks of single values, for the constructors of configuration objects."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Iterable

from paceline.errors import ConfigError, PacelineError

__all__ = [
    "count",
    "fraction",
    "instance_of",
    "is_number",
    "not_negative",
    "one_of",
    "path",
    "positive",
    "said",
    "seconds",
    "text",
]

_LONGEST = 200


def said(value: object) -> str:
    """Write a value for the end of an error: its `repr`, cut where it is long, or its type."""
    try:
        shown = repr(value)
    except Exception:  # such as of a whole number of more than 4,300 digits
        return f"a value of type {type(value).__name__} that cannot be printed"
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}... ({type(value).__name__})"


def instance_of(
    name: str,
    value: object,
    kinds: type | tuple[type, ...],
    right: str,
    error: type[PacelineError] = ConfigError,
) -> None:
    """Refuse anything but an instance of ``kinds``; ``right`` says what those are, with an example."""
    if not isinstance(value, kinds):
        raise error(f"{name} must be {right}, was {said(value)}")


def text(name: str, value: object, error: type[PacelineError] = ConfigError) -> None:
    """Refuse anything but a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise error(f"{name} must be a string that is not empty, was {said(value)}")


def count(
    name: str,
    value: object,
    least: int = 1,
    most: int | None = None,
    why: str = "",
    error: type[PacelineError] = ConfigError,
) -> None:
    """Refuse anything but a whole number of at least ``least`` and at most ``most``, because ``why``."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):  # type: ignore[operator]
        if whole and value > least:  # type: ignore[operator]
            raise error(f"{name} must be at most {most}{why and f' ({why})'}, was {said(value)}")
        raise error(f"{name} must be a whole number of at least {least}, was {said(value)}")


def one_of(
    name: str, value: object, legal: Iterable[object], error: type[PacelineError] = ConfigError
) -> None:
    """Refuse anything but one of a few values."""
    known = list(legal)
    if not any(type(value) is type(each) and value == each for each in known):
        raise error(f"{name} must be one of {', '.join(map(str, known))}, was {said(value)}")


def is_number(value: object) -> bool:
    """Whether a value is a finite number that a double holds."""
    if type(value) is float:
        return math.isfinite(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond what a double holds
        return False


def fraction(name: str, value: object) -> None:
    """Refuse anything but a number above 0 and at most 1."""
    if not is_number(value) or not 0 < value <= 1:  # type: ignore[operator]
        raise ConfigError(f"{name} must be a number above 0 and at most 1, was {said(value)}")


def positive(name: str, value: object) -> None:
    """Refuse anything but a finite number above 0."""
    if not is_number(value) or value <= 0:  # type: ignore[operator]
        raise ConfigError(f"{name} must be a finite number above 0, was {said(value)}")


def seconds(name: str, value: object) -> None:
    """Refuse anything but a finite number of seconds, 0 or more."""
    if not is_number(value) or value < 0:  # type: ignore[operator]
        raise ConfigError(f"{name} must be a finite number of seconds, 0 or more, was {said(value)}")


def not_negative(name: str, value: object) -> None:
    """Refuse anything but a finite number, 0 or more."""
    if not is_number(value) or value < 0:  # type: ignore[operator]
        raise ConfigError(f"{name} must be a finite number, 0 or more, was {said(value)}")


def path(where: str | os.PathLike[str], error: type[PacelineError] = ConfigError) -> None:
    """Refuse a path with a null byte, which no file system takes."""
    if "\0" in os.fspath(where):
        raise error(f"the path of a file must have no null byte, was {os.fspath(where)!r}")
