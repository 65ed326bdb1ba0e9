"""Events of requests, as a simulation tells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from paceline import _core
from paceline._clock import TICKS_PER_SECOND
from paceline.result.outcome import NOWHERE

__all__ = ["Event", "event_frame", "event_list"]

_KIND: Final = pl.Enum(_core.EVENT_KINDS)


class Event(NamedTuple):
    """An event of a request.

    Attributes
    ----------
    time
        When, in seconds.
    kind
        ``admitted`` (for the first time), ``first_token``, ``preempted``, ``readmitted``, ``migrated`` (its
        KV has come from another instance), ``finished``, ``rejected`` (or dropped), ``gave_up`` (it left a
        router that held it for too long), or ``cancelled`` (by its client, as ``cancel_after`` or
        ``cancel_after_tokens`` says).
    request
        The number of the request, as `Simulation.submit` returned it.
    instance
        The instance that it is on; None if it is on none.
    """

    time: float
    kind: str
    request: int
    instance: int | None


def event_list(arrays: Mapping[str, NDArray[Any]]) -> list[Event]:
    """Return the engine's events as objects."""
    times = (arrays["at"] / TICKS_PER_SECOND).tolist()
    kinds = [_core.EVENT_KINDS[code] for code in arrays["kind"].tolist()]
    places = [None if place == NOWHERE else place for place in arrays["instance"].tolist()]
    return list(map(Event, times, kinds, arrays["request"].tolist(), places))


def event_frame(arrays: Mapping[str, NDArray[Any]]) -> pl.DataFrame:
    """Return the engine's events as a table."""
    instance = pl.Series(arrays["instance"])
    return pl.DataFrame(
        {
            "time": arrays["at"] / TICKS_PER_SECOND,
            "kind": pl.Series(np.array(_core.EVENT_KINDS)[arrays["kind"]], dtype=_KIND),
            "request": arrays["request"],
            "instance": instance.set(instance == NOWHERE, None),
        }
    )
