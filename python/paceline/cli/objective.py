"""The objective that ``--slo`` names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from paceline.cli.options import seconds_of

if TYPE_CHECKING:
    from paceline.objectives import SLO, Percentiles

__all__ = ["objectives", "objectives_if", "objectives_or_percentiles"]


def objectives_if(text: str | None) -> SLO | None:
    """Return the bounds that ``--slo`` names; None without the option."""
    return None if text is None else objectives(text)


def objectives(text: str) -> SLO:
    """Return the bounds that ``--slo`` names.

    Raises
    ------
    ConfigError
        If the text is not ``NAME=TIME``, repeated with commas, or a bound cannot be used.

    Examples
    --------
    >>> objectives("ttft=2,tpot=0.15")
    SLO(ttft=2.0, tpot=0.15)
    >>> objectives("ttft=500ms,tpot=40ms")
    SLO(ttft=0.5, tpot=0.04)
    """
    from paceline.errors import ConfigError
    from paceline.objectives import SLO

    known = tuple(SLO.__dataclass_fields__)
    bounds: dict[str, float] = {}
    for name, time in _parts(text):
        if name not in known or name in bounds or not time:
            raise ConfigError(
                f"--slo must be NAME=TIME,NAME=TIME,… with names of {', '.join(known)}, each at most "
                f"once, was {text!r}"
            )
        bounds[name] = seconds_of(time, f"--slo {name}")
    return SLO(**bounds)


def objectives_or_percentiles(text: str) -> SLO | Percentiles:
    """Return the bounds that ``--slo`` names where it may bound percentiles.

    Raises
    ------
    ConfigError
        As for :func:`objectives`, or if bounds of requests and of percentiles are mixed.

    Examples
    --------
    >>> objectives_or_percentiles("p99_tbt=100ms,p50_queueing=2s")
    Percentiles(queueing={50.0: 2.0}, tbt={99.0: 0.1})
    >>> objectives_or_percentiles("ttft=2")
    SLO(ttft=2.0)
    """
    from paceline.errors import ConfigError
    from paceline.objectives import Percentiles

    known = tuple(Percentiles.__dataclass_fields__)
    given: dict[str, dict[float, float]] = {}
    parts = _parts(text)
    found = [re.fullmatch(r"p([0-9.]+)_([a-z0-9]+)", name) for name, _ in parts]
    if not any(found):
        return objectives(text)
    for one, (name, time) in zip(found, parts, strict=True):
        at = None if one is None else _number(one[1])
        if one is None or at is None or one[2] not in known or not time or at in given.get(one[2], {}):
            raise ConfigError(
                f"--slo must bound percentiles only, or none, as pNUMBER_NAME=TIME,… with names of "
                f"{', '.join(known)}, each percentile at most once, was {text!r}: p99_tbt=0.1,p50_queueing=2"
            )
        given.setdefault(one[2], {})[at] = seconds_of(time, f"--slo {name}")
    return Percentiles(**given)


def _parts(text: str) -> list[tuple[str, str]]:
    """Return the names and times of ``NAME=TIME,…``."""
    parts = (part.partition("=") for part in text.split(","))
    return [(name.strip(), time.strip()) for name, _, time in parts]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
