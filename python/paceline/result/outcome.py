"""The output of a replay, from which a result is built.

The native module satisfies these protocols; so does anything else with the
same attributes. Times are integer ticks of a picosecond, and the largest value
of an unsigned column means "never" or "none".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["NEVER", "NOWHERE", "REASONS", "STATUSES", "Outcome", "Sketch"]

NEVER: Final = 2**64 - 1
"""The tick of a moment that did not happen."""

NOWHERE: Final = 2**32 - 1
"""The instance of a request that was never routed."""

STATUSES: Final = ("finished", "running", "waiting", "not_arrived", "rejected", "held", "gave_up")
"""The statuses of a request at the end of a replay, by code."""

REASONS: Final = (
    "sequence longer than max_model_len",
    "KV of the whole sequence exceeds the instance's blocks",
    "prompt longer than the tokens of a step, which is not cut into chunks",
    "rejected by the policy",
)
"""Why a request can be rejected, by code less one (code 0 is "no reason")."""


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
    def scheduled_ticks(self) -> NDArray[np.uint64]:
        """Start of the first step that ran the request."""
        ...

    @property
    def first_token_ticks(self) -> NDArray[np.uint64]:
        """End of the step that emitted the first token."""
        ...

    @property
    def reasoning_end_ticks(self) -> NDArray[np.uint64]:
        """End of the step that emitted the last reasoning token; empty where the trace names none."""
        ...

    @property
    def first_answer_ticks(self) -> NDArray[np.uint64]:
        """End of the step that emitted the first answer token; likewise."""
        ...

    @property
    def answer_started_ticks(self) -> NDArray[np.uint64]:
        """Start of the step that emitted the first answer token; likewise."""
        ...

    @property
    def preempted_ticks(self) -> NDArray[np.uint64]:
        """Time out of the batch after the first admission, without the time from reasoning to the answer."""
        ...

    @property
    def preempted_answering_ticks(self) -> NDArray[np.uint64]:
        """The part of it after the first answer token."""
        ...

    @property
    def held_ticks(self) -> NDArray[np.uint64]:
        """Time for which the router held the request; empty if routers hold none."""
        ...

    @property
    def transfer_ticks(self) -> NDArray[np.uint64]:
        """Time in transfer between instances; empty if requests cannot migrate, as the next six."""
        ...

    @property
    def transfer_answering_ticks(self) -> NDArray[np.uint64]:
        """The part of it between reasoning and the answer."""
        ...

    @property
    def handover_wait_ticks(self) -> NDArray[np.uint64]:
        """The part of it before the first byte was sent."""
        ...

    @property
    def received_wait_ticks(self) -> NDArray[np.uint64]:
        """From when its KV had been received until it was admitted."""
        ...

    @property
    def first_decode_ticks(self) -> NDArray[np.uint64]:
        """The steps that admitted it with such KV."""
        ...

    @property
    def migrations(self) -> NDArray[np.uint32]:
        """Times the request migrated."""
        ...

    @property
    def last_instance(self) -> NDArray[np.uint32]:
        """The last instance of the request."""
        ...

    @property
    def qoe(self) -> NDArray[np.float64]:
        """Quality of experience by Andes; empty if the pace has no ``ttft``, NaN where unfinished."""
        ...

    @property
    def qoe_answering(self) -> NDArray[np.float64]:
        """The same from the first token on; empty if there is no pace."""
        ...

    @property
    def finish_ticks(self) -> NDArray[np.uint64]:
        """End of the step that emitted the last token."""
        ...

    @property
    def max_itl_ticks(self) -> NDArray[np.uint64]:
        """The longest gap between two tokens."""
        ...

    @property
    def preemptions(self) -> NDArray[np.uint32]:
        """Times the request lost its KV cache."""
        ...

    @property
    def generated_tokens(self) -> NDArray[np.uint32]:
        """Output tokens emitted by the end of the replay."""
        ...

    @property
    def cached_tokens(self) -> NDArray[np.uint32]:
        """Prompt tokens that its first lookup found in the prefix cache."""
        ...

    @property
    def instance(self) -> NDArray[np.uint32]:
        """The instance that the request was routed to."""
        ...

    @property
    def status(self) -> NDArray[np.uint8]:
        """An index into `STATUSES`."""
        ...

    @property
    def reason(self) -> NDArray[np.uint8]:
        """Zero, or one more than an index into `REASONS`."""
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
