"""Checks of single values of a policy."""

from __future__ import annotations

from paceline._check import said
from paceline.errors import PolicyError

__all__ = ["duration", "flag", "share", "whole"]

_MOST = 2**32 - 2


def whole(what: str, value: object, least: int = 1) -> None:
    """Refuse anything but a whole number of at least ``least`` that the engine's 32 bits hold."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or value < least:  # type: ignore[operator]  # a number, by the line above
        raise PolicyError(f"{what} must be a whole number of at least {least}, was {said(value)}")
    if value > _MOST:  # type: ignore[operator]
        raise PolicyError(f"{what} must be at most {_MOST}, was {said(value)}")


def duration(what: str, value: object, least: float = 0.0) -> None:
    """Refuse anything but a number of seconds from ``least`` to a million."""
    number = not isinstance(value, bool) and isinstance(value, int | float)
    if not number or not least <= value < 1e6:  # type: ignore[operator]  # a number, by the line above
        raise PolicyError(f"{what} must be {least:g} or more seconds and below 1e6, was {said(value)}")


def share(what: str, value: object, *, most: float = 1.0, below: bool = False) -> None:
    """Refuse anything but a number of at least 0 and at most (or ``below``) ``most``."""
    number = not isinstance(value, bool) and isinstance(value, int | float)
    within = number and (0 <= value < most if below else 0 <= value <= most)  # type: ignore[operator]
    if not within:
        bound = f"below {most:g}" if below else f"at most {most:g}"
        raise PolicyError(f"{what} must be a number of 0 or more and {bound}, was {said(value)}")


def flag(what: str, value: object) -> None:
    """Refuse anything but True and False."""
    if not isinstance(value, bool):
        raise PolicyError(f"{what} must be True or False, was {said(value)}")
