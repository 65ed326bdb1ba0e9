"""Checks of single values, for what policies are made of."""

from __future__ import annotations

from paceline.errors import PolicyError

__all__ = ["duration", "whole"]


def whole(what: str, value: object, least: int = 1) -> None:
    """Refuse anything but a whole number of at least ``least`` that 32 bits hold."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**32 - 1:
        raise PolicyError(f"{what} must be a whole number of at least {least}, was {value!r}")


def duration(what: str, value: object, least: float = 0.0) -> None:
    """Refuse anything but a number of seconds from ``least`` to a million."""
    number = not isinstance(value, bool) and isinstance(value, int | float)
    if not number or not least <= value < 1e6:  # type: ignore[operator]  # a number, by the line above
        raise PolicyError(f"{what} must be {least:g} or more seconds and below 1e6, was {value!r}")
