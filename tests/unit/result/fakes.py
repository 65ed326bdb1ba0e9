"""An outcome written by hand, with the attributes of the engine's.

Imported as `unit.result.fakes`: the tests folder is on the path.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline import _core
from paceline._clock import TICKS_PER_SECOND
from paceline.result import Result
from paceline.result.outcome import NEVER, NOWHERE
from paceline.trace.model import Trace

FINISHED, RUNNING, WAITING, NOT_ARRIVED, REJECTED = range(5)


def ticks(seconds: float) -> int:
    """Seconds in ticks; infinity is the tick of what never happens."""
    return NEVER if seconds == float("inf") else round(seconds * TICKS_PER_SECOND)


class ListSketch:
    """A sketch that forgets nothing: every gap, and quantiles by nearest rank."""

    relative_error = 0.0

    def __init__(self, gaps: Iterable[int] = ()) -> None:
        self.gaps = sorted(gaps)

    @property
    def count(self) -> int:
        return len(self.gaps)

    @property
    def sum_ticks(self) -> int:
        return sum(self.gaps)

    @property
    def min_ticks(self) -> int | None:
        return self.gaps[0] if self.gaps else None

    @property
    def max_ticks(self) -> int | None:
        return self.gaps[-1] if self.gaps else None

    @property
    def variance(self) -> float | None:
        return None if not self.gaps else float(np.var(np.array(self.gaps) / TICKS_PER_SECOND))

    def quantile_s(self, q: float, /) -> float | None:
        if not self.gaps:
            return None
        return self.gaps[round(q * (len(self.gaps) - 1))] / TICKS_PER_SECOND

    def to_json(self) -> bytes:
        return json.dumps(self.gaps).encode()

    @classmethod
    def from_json(cls, text: bytes) -> ListSketch:
        return cls(json.loads(text))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ListSketch) and self.gaps == other.gaps

    __hash__ = None  # type: ignore[assignment]


@dataclass(kw_only=True)
class Request:
    """One row of an outcome, in seconds."""

    arrival: float = 0.0
    prompt: int = 10
    output: int = 1
    scheduled: float = float("inf")
    first_token: float = float("inf")
    finish: float = float("inf")
    max_itl: float = float("inf")
    generated: int = 0
    cached: int = 0
    preemptions: int = 0
    instance: int = NOWHERE
    status: int = FINISHED
    reason: int = 0


def served(
    arrival: float, scheduled: float, first_token: float, finish: float, *, output: int, **others: Any
) -> Request:
    """A finished request with equal gaps."""
    gap = (finish - first_token) / (output - 1) if output > 1 else float("inf")
    times = {"arrival": arrival, "scheduled": scheduled, "first_token": first_token, "finish": finish}
    return Request(
        **{"max_itl": gap, "generated": output, "instance": 0, "output": output, **times, **others}
    )


_TYPES = {"count": np.uint32, "place": np.uint32, "quality": np.float64}


@dataclass(kw_only=True)
class FakeOutcome:
    """Columns as the engine returns them."""

    columns: dict[str, NDArray[Any]]
    itl: Any
    stats: bytes
    flips: bytes
    timeline: None = None


def instance_stats(**counters: int) -> dict[str, Any]:
    """Counters of an instance, zero where not given."""
    names = ("steps", "busy_ticks", "decode_tokens", "prefill_tokens", "preemptions", "finished")
    swaps = ("swapped_out_blocks", "swapped_in_blocks", "swap_overflows")
    prefixes = ("prefix_queries", "prefix_hits", "evictions")
    peaks = ("peak_running", "peak_waiting", "peak_blocks")
    integrals = ("running_ticks", "waiting_ticks", "kv_token_ticks")
    zeros = dict.fromkeys((*names, *swaps, *prefixes, *peaks, *integrals), 0)
    return {"blocks": 100, "block_tokens": 16, "extrapolated": {}, **zeros, **counters}


def outcome_of(
    requests: Sequence[Request],
    *,
    gaps: Iterable[float] = (),
    end: float = 10.0,
    instances: Sequence[dict[str, Any]] | None = None,
) -> FakeOutcome:
    """Lay out requests as columns."""

    def times(name: str) -> NDArray[np.uint64]:
        return np.array([ticks(getattr(request, name)) for request in requests], dtype=np.uint64)

    def numbers(name: str, dtype: Any) -> NDArray[Any]:
        return np.array([getattr(request, name) for request in requests], dtype=dtype)

    of = [instance_stats()] if instances is None else list(instances)
    stats = {"end_ticks": ticks(end), "steps": 7, "events": 9, "instances": of}
    return FakeOutcome(
        columns={
            **{name: np.empty(0, dtype=_TYPES.get(kind, np.uint64)) for name, kind, *_ in _core.COLUMNS},
            "preempted": np.zeros(len(requests), dtype=np.uint64),
            "preempted_answering": np.zeros(len(requests), dtype=np.uint64),
            **{name: times(name) for name in ("scheduled", "first_token", "finish", "max_itl")},
            "preemptions": numbers("preemptions", np.uint32),
            "generated_tokens": numbers("generated", np.uint32),
            "cached_tokens": numbers("cached", np.uint32),
            "instance": numbers("instance", np.uint32),
            "status": numbers("status", np.uint8),
            "reason": numbers("reason", np.uint8),
        },
        itl=ListSketch(ticks(gap) for gap in gaps),
        stats=json.dumps(stats).encode(),
        flips=b"[]",
    )


def trace_of(requests: Sequence[Request], name: str = "by-hand") -> Trace:
    """The trace that the requests came from."""
    return Trace.from_columns(
        arrival=[float(request.arrival) for request in requests],
        prompt_tokens=[request.prompt for request in requests],
        output_tokens=[request.output for request in requests],
        name=name,
    )


@dataclass(frozen=True)
class FakeCluster:
    """Something with a TOML form."""

    text: str = "[[instance]]\nmodel = 'llama-3.1-8b'\n"

    def to_toml(self) -> str:
        return self.text


@dataclass(frozen=True)
class FakePolicy:
    """Something that has only a repr."""

    name: str = "vllm"


def result_of(
    requests: Sequence[Request], *, settings: dict[str, Any] | None = None, **outcome: Any
) -> Result:
    """The result of a replay in which the requests went as they say."""
    return Result.from_outcome(
        trace=trace_of(requests),
        cluster=FakeCluster(),
        policy=FakePolicy(),
        outcome=outcome_of(requests, **outcome),
        settings={"leap": True, "until": None} if settings is None else settings,
    )
