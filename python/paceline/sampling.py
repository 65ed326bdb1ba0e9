"""How often a replay is sampled: a number of seconds, or a number of points."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from paceline._arguments import typed, typed_fields
from paceline._check import said
from paceline._clock import TICKS_PER_SECOND
from paceline.errors import ConfigError

__all__ = ["Sample"]

MOST_ROWS: Final = 2**21
"""The most rows of a timeline. A row takes about 400 bytes while a replay runs."""

_TEXT: Final = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?) ?(?P<unit>ms|s)?")

_LEAST_TICKS: Final = 10**6
"""The first interval for a number of points if all requests arrive at once: a microsecond."""


@dataclass(frozen=True, slots=True)
@typed_fields()
class Sample:
    """How often a replay is sampled, and by what beside instances.

    Parameters
    ----------
    every
        Seconds between two samples if it is a float; the most samples if it is a whole number.
    tenants
        Whether the router's part of the timeline is also kept for each of the tenants, in
        `Result.tenant_timeline`.

    Examples
    --------
    >>> Sample(0.5, tenants=True)
    Sample(every=0.5, tenants=True)
    """

    every: float
    tenants: bool = False


@typed()
def sample_of(given: float | Sample | None) -> Sample | None:
    """Return a ``sample`` as `paceline.replay` takes it, as one object."""
    return given if given is None or isinstance(given, Sample) else Sample(given)


def sample_to_wire(
    sample: float, *, instances: int, arrivals: NDArray[np.uint64], until: int | None
) -> dict[str, int]:
    """Return the interval and the most samples as the engine reads them.

    Parameters
    ----------
    sample
        Seconds between samples if it is a float; the most samples if it is a whole number.
    instances
        The number of instances, each of which has a row at each sample.
    arrivals
        Arrivals in ticks, in order.
    until
        The end of the simulated time in ticks, if there is one.

    Raises
    ------
    ConfigError
        If it is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> times = np.array([0, 3_000_000_000_000], dtype=np.uint64)
    >>> sample_to_wire(0.5, instances=4, arrivals=times, until=None)
    {'every': 500000000000, 'most': 524288}
    >>> sample_to_wire(1000, instances=4, arrivals=times, until=None)
    {'every': 3000000000, 'most': 1000}
    """
    most = MOST_ROWS // instances
    if isinstance(sample, int):
        if not 2 <= sample <= most:
            raise ConfigError(
                f"sample must be 2 to {most} points (at most {MOST_ROWS} rows for {instances} instances), or "
                f"seconds as a float, was {said(sample)}"
            )
        span = int(arrivals[-1]) if len(arrivals) else 0
        span = span if until is None else min(span, until)
        return {"every": max(-(-span // sample), _LEAST_TICKS), "most": sample}
    if not (math.isfinite(sample) and 1e-9 <= sample < 16_000_000):
        raise ConfigError(
            "sample must be 1e-9 or more seconds and below 16000000 (185 days), or a whole number of points, "
            f"was {said(sample)}"
        )
    return {"every": round(sample * TICKS_PER_SECOND), "most": max(most, 2)}


def sample_from_text(text: str) -> float:
    """Return a ``sample`` as it is written on a command line.

    Raises
    ------
    ConfigError
        If it is neither seconds nor a number of points.

    Examples
    --------
    >>> [sample_from_text(text) for text in ("1s", "500ms", "2.5", "1000")]
    [1.0, 0.5, 2.5, 1000]
    """
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise ConfigError(
            "sample must be seconds with a unit or a point (1s, 500ms, 2.5) or a number of points (1000), "
            f"was {text!r}"
        )
    number, unit = found["number"], found["unit"]
    if not unit and "." not in number:
        return int(number)
    return float(number) / (1000 if unit == "ms" else 1)


def warn_if_longer(sample: float, timeline: Mapping[str, Any] | None) -> None:
    """Warn if the interval is longer than was asked for, as the rows would have exceeded `MOST_ROWS`."""
    if timeline is None or isinstance(sample, int):
        return
    every = timeline["every"] / TICKS_PER_SECOND
    if timeline["every"] > round(sample * TICKS_PER_SECOND):
        warnings.warn(
            f"sample={sample} takes more than {MOST_ROWS} rows for this replay; its timeline has a sample "
            f"every {every} seconds",
            UserWarning,
            stacklevel=3,
        )
