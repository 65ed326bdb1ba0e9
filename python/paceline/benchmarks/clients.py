"""How a client sent its requests: at recorded moments, or the next as another ended, and from what on.

A client with a limit of requests in flight holds requests back, so that their send times follow from the
server's speed: replayed as recorded arrivals they would carry the measured speed into the prediction. Such a
run is replayed with the limit instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from paceline.benchmarks.capped import in_flight, in_flight_cap
from paceline.benchmarks.model import BenchmarkResult
from paceline.concurrency import Concurrency
from paceline.errors import ConfigError, TraceError
from paceline.trace import Trace

__all__ = ["Arrivals", "Replayed", "replayed"]

Floats = NDArray[np.float64]

Arrivals: TypeAlias = Literal["recorded", "scheduled", "by-rate", "at-once", "drawn"]
"""Where the arrivals of a replay come from."""

_SCHEDULE_AHEAD: Final = ("vllm", "inference-perf")
"""Tools whose schedule does not wait for places, whatever the load."""

_LONGEST_S: Final = 16_000_000.0
"""What the engine's clock can count."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replayed:
    """The requests of a benchmark as they are replayed.

    Parameters
    ----------
    trace
        The requests that completed, with what was measured of them in further columns.
    clients
        The limit of requests in flight; None if there is none or it was never reached.
    arrivals
        Where the arrivals come from: ``recorded`` send times; ``scheduled`` times, before the limit;
        ``by-rate``, the mean times of the rate, before the limit; ``at-once``, all ready at the start or
        when the limit is first reached; ``drawn`` from the rate.
    """

    trace: Trace
    clients: Concurrency | None
    arrivals: Arrivals


def replayed(
    measured: BenchmarkResult, clients: Concurrency | Literal["auto"] | None = "auto", *, seed: int = 0
) -> Replayed:
    """Return the requests of a benchmark as a trace, and the limit under which they are replayed.

    Parameters
    ----------
    measured
        The benchmark.
    clients
        A limit to replay under; None: send times as they were recorded; ``"auto"``: the file's limit if it
        was reached, or the one that the send times show.
    seed
        Of the arrivals that are drawn where the file has none and its rate is finite.

    Raises
    ------
    TraceError
        If the file does not have the requests, or only a sample of them.
    ConfigError
        If send times are asked for that the file does not have.
    """
    rows = measured.completed
    if rows.is_empty():
        lacking = next(iter(measured.lacks), "requests that completed")
        raise TraceError(f"{measured.name}: cannot be replayed without {lacking}")
    if measured.sampled:
        made = f"{len(rows):,} of {measured.totals.completed or 0:,}"
        raise TraceError(f"{measured.name}: must hold all requests to be replayed, has a sample of {made}")
    has_times = not rows.get_column("sent").null_count()
    if not has_times:
        if clients is None:
            raise ConfigError(
                f"{measured.name}: has no send times; give a limit of requests in flight, or auto"
            )
        arrival, kind = _without_times(measured, len(rows), clients, seed)
        limit = _stated_limit(measured) if clients == "auto" else clients
        return Replayed(trace=_trace(measured, rows, arrival), clients=limit, arrivals=kind)
    sent = rows.get_column("sent").to_numpy()
    if clients is None:
        return Replayed(trace=_trace(measured, rows, sent), clients=None, arrivals="recorded")
    limit = _limit_in(measured) if clients == "auto" else clients
    if limit is None:
        return Replayed(trace=_trace(measured, rows, sent), clients=None, arrivals="recorded")
    arrival, kind = _before_the_limit(measured, rows, sent)
    return Replayed(trace=_trace(measured, rows, arrival), clients=limit, arrivals=kind)


def _stated_limit(measured: BenchmarkResult) -> Concurrency | None:
    most = measured.load.max_concurrency
    return None if most is None else Concurrency(most)


def _limit_in(measured: BenchmarkResult) -> Concurrency | None:
    """Return the limit that the client was held back by; None if it never was.

    Failed requests held places, too, as long as they are known to have lasted.
    """
    rows = measured.requests.filter(pl.col("sent").is_not_null() & pl.col("measured_e2e").is_not_null())
    sent = rows.get_column("sent").to_numpy()
    ended = sent + rows.get_column("measured_e2e").to_numpy()
    stated = measured.load.max_concurrency
    found = in_flight_cap(sent, ended)
    if found is not None:
        most, gap = found
        # A client's clock counts microseconds at best. Failed requests may have held the rest of the places.
        places = stated if stated is not None and measured.failures else most
        return Concurrency(places, gap_s=max(round(gap, 6), 0.0))
    if stated is not None and len(sent) and in_flight(sent, ended).max() >= stated:
        return Concurrency(stated)
    return None


def _before_the_limit(measured: BenchmarkResult, rows: pl.DataFrame, sent: Floats) -> tuple[Floats, Arrivals]:
    """Return when requests were ready to be sent."""
    rate = measured.load.rate
    paced = rate is not None and np.isfinite(rate)
    scheduled = rows.get_column("scheduled")
    # AIPerf and guidellm schedule a request when its place is free, unless they keep to a rate.
    if not scheduled.null_count() and (paced or (rate is None and measured.tool in _SCHEDULE_AHEAD)):
        return scheduled.to_numpy(), "scheduled"
    if rate is None or not paced:
        # From the first time that the limit is reached on, requests wait for places.
        flying = in_flight(sent, sent + rows.get_column("measured_e2e").to_numpy())
        start = 0.0 if rate is not None else sent[int(flying.argmax())]
        return np.minimum(sent, start), "at-once"
    # A request is sent when it is ready, or later.
    return np.minimum(np.arange(len(sent)) / rate, sent), "by-rate"


def _without_times(
    measured: BenchmarkResult, count: int, clients: Concurrency | Literal["auto"], seed: int
) -> tuple[Floats, Arrivals]:
    rate, limited = measured.load.rate, measured.load.max_concurrency is not None or clients != "auto"
    if rate is None or np.isinf(rate):
        if not limited and rate is None:
            raise TraceError(
                f"{measured.name}: has no send times, no rate and no limit of requests in flight: give one"
            )
        return np.zeros(count), "at-once"
    shape = measured.load.burstiness or 1.0
    drawn = (
        np.random.default_rng(seed).standard_gamma(shape, count) / shape
        if np.isfinite(shape)
        else np.ones(count)
    )
    with np.errstate(over="ignore"):
        gaps = drawn / rate
    gaps[0] = 0.0
    return np.cumsum(gaps), "drawn"


def _trace(measured: BenchmarkResult, rows: pl.DataFrame, arrival: Floats) -> Trace:
    """Return the completed requests as a trace, with what was measured of them."""
    if arrival.size and arrival.max() >= _LONGEST_S:
        raise TraceError(f"{measured.name}: must last less than 185 days, lasted {arrival.max():.4g} s")
    if arrival.size and not np.isfinite(arrival).all():
        raise TraceError(f"{measured.name}: moments must be finite seconds, were not")
    kept = ("measured_ttft", "measured_tpot", "measured_itl", "measured_e2e", "measured_client_queueing")
    further: dict[str, Any] = {
        name: rows.get_column(name) for name in kept if rows.get_column(name).null_count() < len(rows)
    }
    return Trace.from_columns(
        arrival=arrival - arrival.min(),
        prompt_tokens=rows.get_column("prompt_tokens"),
        output_tokens=rows.get_column("output_tokens"),
        name=measured.name,
        **further,
    )
