"""The output of a replay, from which a result is built.

The native module satisfies these protocols; so does anything else with the
same attributes. Times are integer ticks of a picosecond, and the largest value
of an unsigned column means "never" or "none".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from numpy.typing import NDArray

__all__ = ["NEVER", "NOWHERE", "REASONS", "STATUSES", "Outcome", "Sketch"]

NEVER: Final = 2**64 - 1
"""The tick of a moment that did not happen."""

NOWHERE: Final = 2**32 - 1
"""The instance of a request that was never routed."""

STATUSES: Final = (
    "finished",
    "running",
    "waiting",
    "not_arrived",
    "rejected",
    "held",
    "gave_up",
    "cancelled",
)
"""The statuses of a request at the end of a replay, by code."""

REASONS: Final = (
    "sequence longer than max_model_len",
    "KV of the whole sequence exceeds the instance's blocks",
    "prompt longer than the tokens of a step, which is not cut into chunks",
    "rejected by the policy",
    "no instance serves the model",
    "its client's time-out passed",
    "its client cancelled it",
)
"""Why a request can be rejected or cancelled, by code less one (code 0 is "no reason")."""


class Sketch(Protocol):
    """A mergeable histogram of durations, with a known relative error."""

    @property
    def count(self) -> int:
        """Durations seen."""
        ...

    @property
    def sum_ticks(self) -> int:
        """Their exact sum."""
        ...

    @property
    def min_ticks(self) -> int | None:
        """The exact shortest; None if there is no duration, as in the next two."""
        ...

    @property
    def max_ticks(self) -> int | None:
        """The exact longest."""
        ...

    @property
    def variance(self) -> float | None:
        """Their population variance, in seconds squared."""
        ...

    @property
    def relative_error(self) -> float:
        """The bound on the relative error of a quantile."""
        ...

    def quantile_s(self, q: float, /) -> float | None:
        """Return the `q` quantile in seconds, or None if there is no duration."""
        ...

    def to_json(self) -> bytes:
        """Return the sketch as JSON, from which an equal one can be read."""
        ...


class Outcome(Protocol):
    """The columns and counters of one replay, a row per request in the trace's order."""

    @property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        """The columns that the engine declares, by name; those that the replay does not have are empty."""
        ...

    @property
    def itl(self) -> Sketch:
        """All gaps between tokens."""
        ...

    @property
    def stats(self) -> bytes:
        """Counters of the replay and of each instance, as JSON."""
        ...

    @property
    def timeline(self) -> Mapping[str, Any] | None:
        """The instances over time: columns, ``times`` and the interval ``every``; None if not sampled."""
        ...

    @property
    def flips(self) -> bytes:
        """The changes of pools as JSON: ticks, instance, pools before and after, cause, request."""
        ...

    def steps(self, instance: int, /) -> Mapping[str, Any]:
        """Return the recorded steps of an instance, as arrays: lists as their values and where each ends."""
        ...

    def transfer_columns(self) -> Mapping[str, Any]:
        """Return the recorded transfers between instances, as arrays."""
        ...
