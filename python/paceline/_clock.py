"""The engine's clock: whole ticks of a picosecond."""

from __future__ import annotations

from typing import Final

from paceline import _check
from paceline.errors import ConfigError

__all__ = ["TICKS_PER_SECOND", "moment", "ticks"]

TICKS_PER_SECOND: Final = 10**12
"""Ticks in a second: the engine counts picoseconds."""

# A longer price is a mistake of units. Below eleven days the engine's sums stay far from 2**64.
_LONGEST_S: Final = 10**6

_LAST_S: Final = 16_000_000
"""The clock ends a little later, at 2**64 ticks."""


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


def moment(name: str, seconds: float) -> int:
    """Return a moment, in seconds from the start of a replay, as ticks of the engine's clock.

    Raises
    ------
    ConfigError
        If the moment is negative, not finite, or not before the clock's end.

    Examples
    --------
    >>> moment("until", 1.5)
    1500000000000
    """
    if not (_check.is_number(seconds) and 0 <= seconds < _LAST_S):
        raise ConfigError(f"{name} must be 0 or more seconds and below {_LAST_S} (185 days), was {seconds}")
    return round(seconds * TICKS_PER_SECOND)
