"""The engine's clock: whole ticks of a picosecond."""

from __future__ import annotations

from typing import Final

from paceline import _check
from paceline.errors import ConfigError

__all__ = ["TICKS_PER_SECOND", "ticks"]

TICKS_PER_SECOND: Final = 10**12
"""Ticks in a second: the engine counts picoseconds."""

# A longer price is a mistake of units. Below eleven days the engine's sums stay far from 2**64.
_LONGEST_S: Final = 10**6


def ticks(seconds: float, what: str = "a time") -> int:
    """Return seconds as ticks of the engine's clock, to the nearest picosecond.

    Raises
    ------
    ConfigError
        If the time is negative, not finite, or above eleven days.

    Examples
    --------
    >>> ticks(0.005)
    5000000000
    """
    _check.seconds(what, seconds)
    if seconds > _LONGEST_S:
        raise ConfigError(f"{what} must be at most {_LONGEST_S} s, was {seconds!r}")
    return round(seconds * TICKS_PER_SECOND)
