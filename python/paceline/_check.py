"""Checks of single values, for the constructors of configuration objects."""

from __future__ import annotations

import math

from paceline.errors import ConfigError

__all__ = ["count", "fraction", "not_negative", "positive", "seconds"]


def count(name: str, value: object, least: int = 1) -> None:
    """Refuse anything but a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, was {value!r}")


def _is_number(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)


def fraction(name: str, value: object) -> None:
    """Refuse anything but a number above 0 and at most 1."""
    if not _is_number(value) or not 0 < value <= 1:  # type: ignore[operator]
        raise ConfigError(f"{name} must be a number above 0 and at most 1, was {value!r}")


def positive(name: str, value: object) -> None:
    """Refuse anything but a finite number above 0."""
    if not _is_number(value) or value <= 0:  # type: ignore[operator]
        raise ConfigError(f"{name} must be a finite number above 0, was {value!r}")


def seconds(name: str, value: object) -> None:
    """Refuse anything but a finite number of seconds, 0 or more."""
    if not _is_number(value) or value < 0:  # type: ignore[operator]
        raise ConfigError(f"{name} must be a finite number of seconds, 0 or more, was {value!r}")


def not_negative(name: str, value: object) -> None:
    """Refuse anything but a finite number, 0 or more."""
    if not _is_number(value) or value < 0:  # type: ignore[operator]
        raise ConfigError(f"{name} must be a finite number, 0 or more, was {value!r}")
